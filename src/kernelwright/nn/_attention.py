# SPDX-License-Identifier: MIT
"""Attention of transformers' models with one product for q, k and v.

Its forward pass stays the module's own: what it calls as self is the module, but for three layers that answer with
their part of a product that is there already. So caches, masks, rotations, norms of heads are the family's, and nothing
of a call is kept.
"""

from __future__ import annotations

import dis
import inspect
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn import _joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

NAMES = ("q_proj", "k_proj", "v_proj")
_OTHER_INPUTS = {"key_value_states", "encoder_hidden_states", "key", "value"}  # where k and v are of another text


def layers_of(module: Any) -> tuple[Any, ...] | None:
    found = tuple(getattr(module, name, None) for name in NAMES)
    return found if all(isinstance(layer, torch.nn.Module) for layer in found) else None


def is_attention(module: Any) -> bool:
    """A module with those layers in 4 bits whose forward pass may be run for another self."""
    layers = layers_of(module)
    known = layers is not None and all(type(layer) in _joined.KINDS for layer in layers)
    return known and _may_stand_for(type(module).forward)


def _may_stand_for(forward: Any) -> bool:
    """Whether a forward pass only asks its self: one that sets something, or calls that of its parent, does more."""
    own = inspect.unwrap(forward)
    code = getattr(own, "__code__", None)
    if code is None:
        return False
    names = list(inspect.signature(own).parameters)
    asks = all(step.opname != "STORE_ATTR" for step in dis.get_instructions(code))
    return names[1:2] == ["hidden_states"] and not _OTHER_INPUTS & {*names} and asks and not code.co_freevars


class _Part:
    """A layer that knows what it gives for one input."""

    def __init__(self, layer: Any, x: Tensor, y: Tensor) -> None:
        self._layer, self._x, self._y = layer, x, y

    def __call__(self, x: Tensor) -> Any:
        return self._y if x is self._x else self._layer(x)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


class _Knowing:
    """An attention module within one call."""

    def __init__(self, module: Any, parts: tuple[_Part, ...]) -> None:
        self._module = module
        self.q_proj, self.k_proj, self.v_proj = parts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def is_joined(module: Any) -> bool:
    """Whether its weights were brought together."""
    return getattr(getattr(module, NAMES[0], None), "joined", None) is not None


def forward(self: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
    """In place of the module's own."""
    return run(type(self).forward, self, hidden_states, *args, **kwargs)


def run(own: Callable[..., Any], self: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
    """A forward pass of the module with one product for q, k and v."""
    layers = self.q_proj, self.k_proj, self.v_proj
    y = _joined.product(layers, hidden_states)
    if y is None:
        return own(self, hidden_states, *args, **kwargs)
    parts = y.split([layer.out_features for layer in layers], -1)
    knowing = _Knowing(
        self, tuple(_Part(layer, hidden_states, part) for layer, part in zip(layers, parts, strict=True))
    )
    return own(knowing, hidden_states, *args, **kwargs)


def merge(module: Any, _: bool = False) -> str | None:
    return _joined.join(layers_of(module) or ())


def part(module: Any) -> None:
    _joined.part(layers_of(module) or ())
