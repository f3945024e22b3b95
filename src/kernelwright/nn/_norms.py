# SPDX-License-Identifier: MIT
"""Forward passes of norms of other libraries by kernelwright's operators, and norms in one pass with what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn._memory import has_hooks
from kernelwright.ops.norm.layer_norm import layer_norm
from kernelwright.ops.norm.rms_norm import rms_norm

if TYPE_CHECKING:
    from torch import Tensor

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_compiling = torch.compiler.is_dynamo_compiling


def _own(module: Any, *args: Any, **kwargs: Any) -> Any:
    return type(module).forward(module, *args, **kwargs)


def _may(x: Any, weight: Tensor) -> bool:
    return not _compiling() and x.dtype in FLOATS and weight.device == x.device


def eps_of(module: Any) -> Any:
    return getattr(module, "variance_epsilon", getattr(module, "eps", None))


def is_rms_norm(module: Any) -> bool:
    name, weight = type(module).__name__, getattr(module, "weight", None)
    return name.endswith("RMSNorm") and isinstance(eps_of(module), float) and weight is not None and weight.dim() == 1


def of_factors(self: Any, x: Tensor) -> Any:
    weight = self.weight
    if not _may(x, weight) or weight.dtype is not x.dtype:  # another type is promoted, each family in its way
        return _own(self, x)
    return rms_norm(x, weight, eps=eps_of(self))


def of_offsets(self: Any, x: Tensor) -> Any:
    """The weight is how far the factor is from 1, and the factor is taken in float32. That of a frozen weight is kept;
    not every optimizer tells torch of its steps."""
    weight = self.weight
    if not _may(x, weight):
        return _own(self, x)
    if weight.requires_grad or weight.is_inference():
        return rms_norm(x, weight.float() + 1, eps=eps_of(self))
    known, version = self.__dict__.get("_kernelwright_factor"), weight._version  # noqa: SLF001 - it has no public name
    if known is None or known[0] is not weight or known[1] != version or known[2].device != weight.device:
        known = self.__dict__["_kernelwright_factor"] = weight, version, weight.detach().float() + 1
    return rms_norm(x, known[2], eps=eps_of(self))


def is_layer_norm(module: Any) -> bool:
    shape = getattr(module, "normalized_shape", ())
    return type(module) is torch.nn.LayerNorm and len(shape) == 1 and module.weight is not None


def of_layer(self: Any, x: Tensor) -> Any:
    if not _may(x, self.weight) or self.weight.dtype is not x.dtype or torch.is_autocast_enabled(x.device.type):
        return _own(self, x)
    return layer_norm(x, self.weight, self.bias, eps=self.eps)


def in_one_pass(norm: Any, x: Tensor) -> tuple[Tensor, float] | None:
    """Weight and eps of an RMS norm whose forward pass was found to be `of_factors`, for an operator that takes them;
    None: it is to be called."""
    own = norm.__dict__.get("forward")
    if own is None or own.__func__ is not of_factors or has_hooks(norm):
        return None
    weight = norm.weight
    learns = torch.is_grad_enabled() and (weight.requires_grad or x.requires_grad)
    if learns or weight.dtype is not x.dtype or x.dtype not in FLOATS or weight.device != x.device:
        return None
    return None if torch.is_autocast_enabled(x.device.type) else (weight, eps_of(norm))
