# SPDX-License-Identifier: MIT
"""Normalisation layers.

Within autocast y has the type of x, where torch's modules may give float32. The result of a layer, in 16 bits, may be x
beside a residual in float32: the sum is float32 then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.ops.norm.layer_norm import layer_norm
from kernelwright.ops.norm.rms_norm import rms_norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = ["LayerNorm", "RMSNorm"]

_EPS = {dtype: torch.finfo(dtype).eps for dtype in (torch.float32, torch.float64)}


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm on kernelwright's operator: same arguments, same state dict.

    eps=None is torch's: the machine epsilon of the type the sum of squares is kept in.
    `forward` also takes a residual, which is added first; it then returns (y, x + residual), or with
    inplace=True writes the sum into `residual` and returns y.
    """

    def forward(
        self, x: Tensor, residual: Tensor | None = None, *, inplace: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        _require_tensors(rms_norm, x, residual)
        eps = self.eps
        if eps is None:
            eps = _EPS[torch.float64 if x.dtype is torch.float64 else torch.float32]
        return _forward(self, rms_norm, super().forward, x, (self.weight,), residual, eps, inplace)


class LayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm on kernelwright's operator: same arguments, same state dict.

    `forward` also takes a residual, which is added first; it then returns (y, x + residual), or with
    inplace=True writes the sum into `residual` and returns y.
    """

    def forward(
        self, x: Tensor, residual: Tensor | None = None, *, inplace: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        _require_tensors(layer_norm, x, residual)
        return _forward(self, layer_norm, super().forward, x, (self.weight, self.bias), residual, self.eps, inplace)


def _require_tensors(norm: Callable[..., Any], x: Any, residual: Any) -> None:
    """What is no tensor has no shape to look at, and the operator's own words would come too late."""
    for name, value in (("x", x), ("residual", residual)):
        if not isinstance(value, torch.Tensor) and (value is not None or name == "x"):
            raise InvalidArgument(f"{norm.__name__}: {name} is of type {type(value).__name__}, but must be a tensor")


def _forward(
    module: Any,
    norm: Callable[..., Any],
    of_torch: Callable[[Tensor], Tensor],
    x: Tensor,
    parameters: tuple[Tensor | None, ...],
    residual: Tensor | None,
    eps: float,
    inplace: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    shape = module.normalized_shape
    if not shape:
        raise InvalidArgument(f"{norm.__name__}: normalized_shape is (), but must have at least one dimension")
    if x.is_nested or (inplace if residual is None else residual.is_nested):
        return norm(x, *parameters, residual, eps=eps, inplace=inplace)  # which refuses it, and says why
    if x.shape[-len(shape) :] != shape:
        raise InvalidArgument(f"{norm.__name__}: x has shape {tuple(x.shape)}, but must end in {tuple(shape)}")
    if residual is not None and residual.shape != x.shape:
        raise InvalidArgument(
            f"{norm.__name__}: residual has shape {tuple(residual.shape)}, but x has {tuple(x.shape)}"
        )
    if 0 in shape:
        return _empty(of_torch, x, residual, inplace)
    if len(shape) == 1:
        return norm(x, *parameters, residual, eps=eps, inplace=inplace)
    return _over_several_dimensions(shape, norm, x, parameters, residual, eps, inplace)


def _empty(
    of_torch: Callable[[Tensor], Tensor], x: Tensor, residual: Tensor | None, inplace: bool
) -> Tensor | tuple[Tensor, Tensor]:
    """Rows without elements are no matter for a kernel, but torch's modules take them."""
    if residual is None or inplace:
        return of_torch(x)
    return of_torch(x), x + residual


def _over_several_dimensions(
    shape: tuple[int, ...],
    norm: Callable[..., Any],
    x: Tensor,
    parameters: tuple[Tensor | None, ...],
    residual: Tensor | None,
    eps: float,
    inplace: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    for name, parameter in zip(("weight", "bias"), parameters, strict=False):
        if parameter is not None and parameter.shape != shape:
            raise InvalidArgument(
                f"{norm.__name__}: {name} has shape {tuple(parameter.shape)}, but must have {tuple(shape)}, "
                "as normalized_shape is"
            )
    flat = x.flatten(-len(shape))
    if residual is not None:
        residual = _written(residual, flat.shape) if inplace else residual.flatten(-len(shape))
    result = norm(flat, *(p if p is None else p.flatten() for p in parameters), residual, eps=eps, inplace=inplace)
    if isinstance(result, tuple):
        return result[0].unflatten(-1, shape), result[1].unflatten(-1, shape)
    return result.unflatten(-1, shape)


def _written(residual: Tensor, shape: tuple[int, ...]) -> Tensor:
    """As a view and never as a copy, which would swallow what is written in place."""
    try:
        return residual.view(shape)
    except RuntimeError:
        raise InvalidArgument(
            f"inplace=True: residual of shape {tuple(residual.shape)} and strides {residual.stride()} cannot be seen "
            f"as rows of shape {tuple(shape)} without a copy; make it contiguous first, or leave inplace out"
        ) from None
