# SPDX-License-Identifier: MIT
"""kernelwright's rope in attention layers of transformers' models. Importing this file imports torch.

Such a layer calls `apply_rotary_pos_emb`, a function of its family's file. A layer that is changed runs its own forward
pass with another function under that name: the file, and the layers of other models, keep theirs.
"""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn import _attention as attention
from kernelwright.nn._norms import FLOATS
from kernelwright.ops.attention.rope import rope

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright.nn._replace import Found

KIND = "rotary embedding"
_NAME = "apply_rotary_pos_emb"
_compiling = torch.compiler.is_dynamo_compiling


class _Names(dict[str, Any]):
    """A file's names as they are at any time, but for some."""

    def __init__(self, file: dict[str, Any], **others: Any) -> None:
        super().__init__(others)
        self.file = file

    def __missing__(self, name: str) -> Any:
        return self.file[name]


def _serves(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: Any) -> bool:
    """Whether the result would be of the same type, and gradients are those that are there."""
    return (
        q.dtype in FLOATS
        and q.dtype is k.dtype is cos.dtype is sin.dtype
        and q.dim() == k.dim() == 4
        and cos.dim() == sin.dim() == 3
        and unsqueeze_dim in (1, 2)
        and q.device == k.device == cos.device == sin.device
        and not (torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad))
    )


def _function_for(own: Callable[..., Any], interleaved: bool) -> Callable[..., Any]:
    """In the place of a family's own function, to which it leaves what is unusual."""

    def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *args: Any, **kwargs: Any) -> Any:
        unsqueeze_dim = kwargs.get("unsqueeze_dim", 1)
        if args or kwargs.keys() - {"unsqueeze_dim"} or not _serves(q, k, cos, sin, unsqueeze_dim):
            return own(q, k, cos, sin, *args, **kwargs)
        seq_dim = -2 if unsqueeze_dim == 1 else -3
        return rope(q, cos, sin, k=k, rotary_dim=cos.shape[-1], seq_dim=seq_dim, interleaved=interleaved)

    return apply_rotary_pos_emb


def _is_turn(own: Callable[..., Any], interleaved: bool) -> bool:
    """Whether a family's function gives what rope does for random numbers, with as many angles as transformers makes:
    one for each element, the same for both of a pair. Of others its formula would be no turn."""
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, heads, 3, 8, generator=generator, device="cpu") for heads in (4, 2))
    angles = torch.randn(2, 3, 4, generator=generator, device="cpu")
    angles = angles.repeat_interleave(2, -1) if interleaved else torch.cat((angles, angles), -1)
    given = q, k, angles.cos(), angles.sin()
    try:
        expected = own(*given)
    except (TypeError, ValueError, RuntimeError):  # it takes other arguments
        return False
    found = rope(*given[:1], *given[2:], k=k, interleaved=interleaved)
    return len(expected) == 2 and all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True))


@cache
def _forward_of(own: FunctionType) -> FunctionType | None:
    """An attention layer's forward pass with our function; None where its own is no turn."""
    turns = own.__globals__[_NAME]
    form = next((interleaved for interleaved in (False, True) if _is_turn(turns, interleaved)), None)
    if form is None:
        return None
    names = _Names(own.__globals__, **{_NAME: _function_for(turns, form)})
    made = FunctionType(own.__code__, names, own.__name__, own.__defaults__, own.__closure__)
    made.__kwdefaults__ = own.__kwdefaults__
    return made


def found(module: Any) -> Found | None:
    """Of an attention layer that calls its family's function: the forward pass for it, or why there is none."""
    own = type(module).forward
    inner = own
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    if not isinstance(inner, FunctionType) or _NAME not in inner.__code__.co_names or _NAME not in inner.__globals__:
        return None
    if inner is not own:
        return KIND, None, "its forward pass is within another function"
    if _forward_of(own) is None:
        return KIND, None, "it computes something else than its name says"
    return KIND, forward, None


def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """In the place of the layer's own; within torch.compile that is what runs, since the compiler makes one kernel of
    the turn and of what stands beside it."""
    own = type(self).forward
    turning = own if _compiling() else _forward_of(own) or own
    joined = attention.is_joined(self) or "norm" in kwargs
    return attention.run(turning, self, *args, **kwargs) if joined else turning(self, *args, **kwargs)


forward.stands_for = attention.forward  # type: ignore[attr-defined]  # whose weights come together for it too
