# SPDX-License-Identifier: MIT
"""Which modules of other libraries compute what an operator computes, and the forward pass that calls it.

A pattern names what a module must look like. Whether it computes that is not taken from its name: before a module is
changed its own forward pass is compared with the one that would take its place. Within torch.compile a module goes its
own way, since the compiler makes one kernel of a norm and of what stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn import _attention as attention
from kernelwright.nn import _feed_forward as feed
from kernelwright.ops.norm.layer_norm import layer_norm
from kernelwright.ops.norm.rms_norm import rms_norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Forward = Callable[..., Any]

_compiling = torch.compiler.is_dynamo_compiling


@dataclass(frozen=True)
class Pattern:
    """One kind of module."""

    kind: str
    matches: Callable[[Any], bool]
    width: Callable[[Any], int] | None
    """Of the rows that it takes. None: it is the module's own pass on weights that lie together, and nothing else."""
    forward: Forward
    """In place of the module's own, to which it may go back."""
    merge: Callable[[Any, bool], str | None] | None = None
    """Brings weights together in memory that one product may then take, or says why it cannot; `part` undoes it. False:
    of layers in 4 bits alone, and "" of others."""
    part: Callable[[Any], None] | None = None
    merges: str = ""
    """The layers of those weights, in words."""


def _own(module: Any, *args: Any, **kwargs: Any) -> Any:
    return type(module).forward(module, *args, **kwargs)


def _may(x: Any, weight: Tensor) -> bool:
    return not _compiling() and x.dtype in feed.FLOATS and weight.device == x.device


# --- norms ------------------------------------------------------------------------


def _eps(module: Any) -> Any:
    return getattr(module, "variance_epsilon", getattr(module, "eps", None))


def _is_rms_norm(module: Any) -> bool:
    name, weight = type(module).__name__, getattr(module, "weight", None)
    return name.endswith("RMSNorm") and isinstance(_eps(module), float) and weight is not None and weight.dim() == 1


def _rms_norm(self: Any, x: Tensor) -> Any:
    weight = self.weight
    if not _may(x, weight) or weight.dtype is not x.dtype:  # another type is promoted, each family in its way
        return _own(self, x)
    return rms_norm(x, weight, eps=_eps(self))


def _rms_norm_of_offsets(self: Any, x: Tensor) -> Any:
    """The weight is how far the factor is from 1, and the factor is taken in float32. That of a frozen weight is kept;
    not every optimizer tells torch of its steps."""
    weight = self.weight
    if not _may(x, weight):
        return _own(self, x)
    if weight.requires_grad or weight.is_inference():
        return rms_norm(x, weight.float() + 1, eps=_eps(self))
    known, version = self.__dict__.get("_kernelwright_factor"), weight._version  # noqa: SLF001 - it has no public name
    if known is None or known[0] is not weight or known[1] != version or known[2].device != weight.device:
        known = self.__dict__["_kernelwright_factor"] = weight, version, weight.detach().float() + 1
    return rms_norm(x, known[2], eps=_eps(self))


def _is_layer_norm(module: Any) -> bool:
    shape = getattr(module, "normalized_shape", ())
    return type(module) is torch.nn.LayerNorm and len(shape) == 1 and module.weight is not None


def _layer_norm(self: Any, x: Tensor) -> Any:
    if not _may(x, self.weight) or self.weight.dtype is not x.dtype or torch.is_autocast_enabled(x.device.type):
        return _own(self, x)
    return layer_norm(x, self.weight, self.bias, eps=self.eps)


PATTERNS = (
    Pattern("norm", _is_rms_norm, lambda module: module.weight.numel(), _rms_norm),
    Pattern("norm", _is_rms_norm, lambda module: module.weight.numel(), _rms_norm_of_offsets),
    Pattern("norm", _is_layer_norm, lambda module: module.normalized_shape[0], _layer_norm),
    Pattern("gated MLP", feed.is_gated, feed.gated_width, feed.gated, feed.merge, feed.part, "gate and up"),
    Pattern("gated MLP", feed.is_gated_packed, feed.gated_width, feed.gated_packed),
    Pattern(
        "attention", attention.is_attention, None, attention.forward, attention.merge, attention.part, "q, k and v"
    ),
    Pattern("linear and activation", feed.is_dense, feed.width_of, feed.dense),
    Pattern("linear and activation", feed.is_two_layers, feed.width_of, feed.two_layers),
    Pattern("linear and activation", feed.is_sequence, feed.width_of, feed.sequence),
)
"""Of patterns that match a module the first is taken whose forward pass gives what the module's own gives."""

for _pattern in PATTERNS:
    _pattern.forward.__name__ = "forward"  # by which a pickled module finds its own again
