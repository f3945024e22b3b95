# SPDX-License-Identifier: MIT
"""Normalisation layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.ops.rms_norm import rms_norm

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["RMSNorm"]


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm on kernelwright's operator: same arguments, same state dict.

    eps=None is torch's: the machine epsilon of the type the sum of squares is kept in.
    `forward` also takes a residual, which is added first; it then returns (y, x + residual), or with
    inplace=True writes the sum into `residual` and returns y.
    """

    def forward(
        self, x: Tensor, residual: Tensor | None = None, *, inplace: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        shape = self.normalized_shape
        if x.shape[-len(shape) :] != shape:
            raise InvalidArgument(f"RMSNorm: x has shape {tuple(x.shape)}, but must end in {tuple(shape)}")
        if residual is not None and residual.shape != x.shape:
            raise InvalidArgument(f"RMSNorm: residual has shape {tuple(residual.shape)}, but x has {tuple(x.shape)}")
        eps = self.eps
        if eps is None:
            eps = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32).eps
        if len(shape) == 1:
            return rms_norm(x, self.weight, residual, eps=eps, inplace=inplace)
        return self._over_several_dimensions(x, residual, eps, inplace)

    def _over_several_dimensions(
        self, x: Tensor, residual: Tensor | None, eps: float, inplace: bool
    ) -> Tensor | tuple[Tensor, Tensor]:
        shape = self.normalized_shape
        flat = x.flatten(-len(shape))
        weight = None if self.weight is None else self.weight.flatten()
        if residual is not None:
            # view() and not flatten(): a copy would swallow what is written in place.
            residual = residual.view(flat.shape) if inplace else residual.flatten(-len(shape))
        result = rms_norm(flat, weight, residual, eps=eps, inplace=inplace)
        if isinstance(result, tuple):
            return result[0].unflatten(-1, shape), result[1].unflatten(-1, shape)
        return result.unflatten(-1, shape)
