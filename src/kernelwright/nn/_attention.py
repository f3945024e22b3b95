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

from kernelwright.nn import _joined, _joined_ternary, _source

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

NAMES = ("q_proj", "k_proj", "v_proj")
_LAST = "attn_sub_norm", "o_proj"  # BitNet's
_OTHER_INPUTS = {"key_value_states", "encoder_hidden_states", "key", "value"}  # where k and v are of another text


def layers_of(module: Any) -> tuple[Any, ...] | None:
    found = tuple(getattr(module, name, None) for name in NAMES)
    return found if all(isinstance(layer, torch.nn.Module) for layer in found) else None


def is_attention(module: Any) -> bool:
    """A module with those layers in 4 bits, or ternary, whose forward pass may be run for another self."""
    layers = layers_of(module)
    known = layers is not None and all(type(layer) in _joined.KINDS for layer in layers)
    return known and may_stand_for(type(module).forward)


def may_stand_for(forward: Any) -> bool:
    """Whether a forward pass only asks its self: one that sets something, or calls that of its parent, does more."""
    own = inspect.unwrap(forward)
    code = getattr(own, "__code__", None)
    if code is None:
        return False
    names = list(inspect.signature(own).parameters)
    asks = all(step.opname != "STORE_ATTR" for step in dis.get_instructions(code))
    return names[1:2] == ["hidden_states"] and not _OTHER_INPUTS & {*names} and asks and not code.co_freevars


class StandIn:
    """In the place of a module within one call: all that it has not itself is the module's."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Part(StandIn):
    """A layer that knows what it gives for one input."""

    def __init__(self, layer: Any, x: Tensor, y: Tensor) -> None:
        super().__init__(layer)
        self._x, self._y = x, y

    def __call__(self, x: Tensor) -> Any:
        return self._y if x is self._x else self._module(x)


class Later(StandIn):
    """A norm whose work is done by what follows it."""

    def __call__(self, x: Tensor) -> Tensor:
        return x


class _Normed(StandIn):
    """A layer that follows such a norm."""

    def __init__(self, layer: Any, norm: Any) -> None:
        super().__init__(layer)
        self._norm = norm

    def __call__(self, x: Tensor) -> Any:
        return _joined_ternary.after(self._norm, self._module, x)


class _Knowing(StandIn):
    """An attention module within one call."""

    def __init__(self, module: Any, parts: tuple[_Part, ...]) -> None:
        super().__init__(module)
        self.q_proj, self.k_proj, self.v_proj = parts
        if module.q_proj.joined.ends_with_norm:
            norm = module.attn_sub_norm
            self.attn_sub_norm, self.o_proj = Later(norm), _Normed(module.o_proj, norm)


def is_joined(module: Any) -> bool:
    """Whether its weights were brought together."""
    return getattr(getattr(module, NAMES[0], None), "joined", None) is not None


def forward(self: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
    """In place of the module's own."""
    return run(type(self).forward, self, hidden_states, *args, **kwargs)


def run(own: Callable[..., Any], self: Any, hidden_states: Tensor, *args: Any, norm: Any = None, **kwargs: Any) -> Any:
    """A forward pass of the module with one product for q, k and v. With a norm, of norm(hidden_states)."""
    layers = self.q_proj, self.k_proj, self.v_proj
    y = _joined.product(layers, hidden_states, norm)
    if y is None:
        return own(self, hidden_states if norm is None else norm(hidden_states), *args, **kwargs)
    parts = y.split([layer.out_features for layer in layers], -1)
    knowing = _Knowing(
        self, tuple(_Part(layer, hidden_states, part) for layer, part in zip(layers, parts, strict=True))
    )
    return own(knowing, hidden_states, *args, **kwargs)


def merge(module: Any, _: bool = False) -> str | None:
    reason = _joined.join(layers_of(module) or ())
    if reason is None:
        module.q_proj.joined.ends_with_norm = _source.hands_on(type(module).forward, *_LAST)
    return reason


def part(module: Any) -> None:
    _joined.part(layers_of(module) or ())
