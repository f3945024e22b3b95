# SPDX-License-Identifier: MIT
"""Decoder layers of transformers' models whose norms become one pass with the quantization of what follows them.

As with attention (_attention.py) the forward pass stays the layer's own, for another self: its norms hand on what they
are given, and attention and the feed-forward part take the norm with it. Where something watches them, hooks or another
library's forward pass, they are called as they were.
"""

from __future__ import annotations

from typing import Any

import torch

from kernelwright.nn import _attention, _feed_forward, _source
from kernelwright.nn._attention import Later, StandIn
from kernelwright.nn._memory import has_hooks
from kernelwright.nn.bit_linear import BitLinear

_PAIRS = (("input_layernorm", "self_attn"), ("post_attention_layernorm", "mlp"))


def is_decoder(module: Any) -> bool:
    """A layer of that form whose attention and feed-forward part are of ternary layers."""
    parts: list[Any] = [getattr(module, name, None) for pair in _PAIRS for name in pair]
    if not all(isinstance(part, torch.nn.Module) for part in parts):
        return False
    _, attention, _, mlp = parts
    own = type(module).forward
    layers = [
        *(_attention.layers_of(attention) or [None]),
        getattr(mlp, "gate_proj", None),
        getattr(mlp, "up_proj", None),
    ]
    return (
        all(type(layer) is BitLinear and layer.weight is None for layer in layers)
        and _attention.may_stand_for(own)
        and _source.reads_only_in(type(attention).forward, "hidden_states", _attention.NAMES)
        and all(_source.hands_on(own, *pair) for pair in _PAIRS)
    )


class _Behind(StandIn):
    """The module behind a norm."""

    def __init__(self, module: Any, norm: Any) -> None:
        super().__init__(module)
        self._norm = norm

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._module(*args, norm=self._norm, **kwargs)


class _Knowing(StandIn):
    """A decoder layer within one call."""

    forward: Any = None
    """transformers 5.23 asks the class for it, whether a pass is the outermost one, which is to be checkpointed."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        for name, behind in _PAIRS:
            norm, then = getattr(module, name), getattr(module, behind)
            if _takes_norm(then):
                setattr(self, name, Later(norm))
                setattr(self, behind, _Behind(then, norm))


def _takes_norm(module: Any) -> bool:
    """Whether its forward pass is one of ours, and nothing watches it."""
    own = module.__dict__.get("forward")
    function = getattr(own, "__func__", None)
    known = getattr(function, "stands_for", function)
    return (known is _attention.forward or known is _feed_forward.gated) and not has_hooks(module)


def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """In place of the module's own."""
    checkpointed = self.training and getattr(self, "gradient_checkpointing", False)
    return type(self).forward(self if checkpointed else _Knowing(self), *args, **kwargs)
