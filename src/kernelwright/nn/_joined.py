# SPDX-License-Identifier: MIT
"""Layers that take the same input as one product, in 4 bits or dense: q, k and v of attention, gate and up of an MLP.

Their parameters stay what they are, under their names, as views of one piece of memory. Each call looks whether they
still are; where an adapter, a hook, a moved or a sharded weight is in the way, the layers are called one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn import _joined_4bit, _joined_dense
from kernelwright.nn._joined_4bit import hooked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

_compiling = torch.compiler.is_dynamo_compiling


def _kind(layers: Sequence[Any]) -> Any:
    """The file for layers of this kind; None: there is none, or they are of several."""
    kinds = {type(layer) for layer in layers}
    if kinds == {torch.nn.Linear}:
        return _joined_dense
    return _joined_4bit if len(kinds) == 1 and kinds <= set(_joined_4bit.KINDS) else None


def may(layers: Sequence[Any]) -> bool:
    """Whether it is for this to say that they cannot be joined: other libraries' layers are not."""
    return _kind(layers) is not None


def join(layers: Sequence[Any]) -> str | None:
    """Brings their weights together in memory, one set of layers at a time; else says why not."""
    kind = _kind(layers)
    if kind is None:
        return "its layers are not of one kind that is known here"
    if any(hooked(layer) for layer in layers):
        return "another library hooks into its layers"
    with torch.no_grad():
        reason: str | None = kind.why_not(layers)
        if reason is None and not kind.together(layers):
            kind.join(layers)
    return reason


def part(layers: Sequence[Any]) -> None:
    """Gives each its own memory again."""
    _joined_4bit.part([layer for layer in layers if type(layer) in _joined_4bit.KINDS])
    _joined_dense.part([layer for layer in layers if type(layer) is torch.nn.Linear])


def product(layers: Sequence[Any], x: Any) -> Tensor | None:
    """What the layers give for x, side by side, by one product. None: they are to be called one by one. Within
    torch.compile the compiler has dense ones."""
    if type(layers[0]) is not torch.nn.Linear:
        return _joined_4bit.product(layers, x)
    if _compiling() or torch.is_autocast_enabled(x.device.type):
        return None
    if any(type(layer) is not torch.nn.Linear or hooked(layer) for layer in layers):
        return None
    both = _joined_dense.together(layers)
    return None if both is None else torch.nn.functional.linear(x, *both)
