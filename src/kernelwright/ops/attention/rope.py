# SPDX-License-Identifier: MIT
"""Rotary position embeddings of queries and keys, forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._record import Backward, Op, Overload
from kernelwright.ops.attention import _rope_cases as cases
from kernelwright.ops.attention import _rope_launch as kernels
from kernelwright.ops.attention import _rope_reference as reference
from kernelwright.ops.attention import _splits as splits

if TYPE_CHECKING:
    from torch import Tensor


def _rows_first(seq_dim: int) -> bool:
    """Whether rows are dimension 1, and heads 2."""
    if seq_dim not in (-2, -3, 1, 2):
        raise InvalidArgument(
            f"rope: seq_dim is {seq_dim}, but must be -2 (x is [batch, heads, rows, d]) or -3 ([batch, rows, heads, d])"
        )
    return seq_dim in (1, -3)


def _exchanged(x: Any) -> Any:
    """Heads before rows, or back; what has neither is refused by the operator, in its words."""
    import torch

    return x.transpose(1, 2) if isinstance(x, torch.Tensor) and x.dim() == 4 else x


def _turning(x: Any, cos: Any) -> int:
    """How many elements a table turns where nobody says it."""
    import torch

    if not isinstance(x, torch.Tensor) or not isinstance(cos, torch.Tensor) or not x.dim() or not cos.dim():
        return 2  # refused by the operator
    width = cos.shape[-1]
    return width if width == x.shape[-1] else 2 * width


def rope(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    k: Tensor | None = None,
    positions: Tensor | None = None,
    rotary_dim: int | None = None,
    seq_dim: int = -2,
    interleaved: bool = False,
    inverse: bool = False,
    inplace: bool = False,
) -> Any:
    """Rotary position embeddings: turns pairs (a, b) of a row's first elements by the angle of the row's place, to
    `(a * cos - b * sin, b * cos + a * sin)`.

    x            [batch, heads, rows, d] of any strides, float32, float16 or bfloat16, on the CPU or a GPU; computed in
                 float32. float64 works too, for checking gradients: it is computed in plain torch
    k            keys beside queries in x, turned in the same launch: like x, with heads of their own number
    cos, sin     [max_positions, n], or a row for each of x's, [batch or 1, rows, n]; of x's dtype or float32 (others
                 are converted). n is rotary_dim / 2, as flash-attn has it, or rotary_dim, as transformers has it: an
                 entry for each element of x, equal for both of a pair. No gradients are taken by them
    positions    which row of [max_positions, n] each row has, int32 or int64: [batch or 1, rows], or [batch], the
                 position of the first row, from which on they are counted. None: 0, 1, 2 .... What is outside takes
                 the nearest row
    rotary_dim   how many elements are turned; others stay. None: all, where n is d, else 2 * n
    seq_dim      -3: x and k are [batch, rows, heads, d]
    interleaved  pairs are neighbours (GPT-J), else the first half of the elements and the second (GPT-NeoX, Llama)
    inverse      turn back
    inplace      write the results into x and k, which are returned. No gradients are recorded then.

    Returns the turned x, or the pair (x, k) with k; in memory their dimensions are in the order of the arguments'.
    Differentiable in x and k.

    >>> q, k = kernelwright.rope(q, cos, sin, k=k)
    """
    rows_first = _rows_first(seq_dim)
    given = [x] if k is None else [x, k]
    seen = [_exchanged(t) for t in given] if rows_first else given
    options = cos, sin, positions, _turning(x, cos) if rotary_dim is None else rotary_dim, interleaved, inverse
    if inplace:
        calls.rope.x_(*seen, *options) if k is None else calls.rope.pair_(*seen, *options)
        return x if k is None else (x, k)
    found = [calls.rope.default(*seen, *options)] if k is None else calls.rope.pair(*seen, *options)
    if rows_first:
        found = [_exchanged(t) for t in found]
    return found[0] if k is None else tuple(found)


# --- gradients: the turn back -----------------------------------------------------


def _saver(tensors: int) -> Any:
    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001 - torch passes it by name
        ctx.save_for_backward(*inputs[tensors : tensors + 3])
        ctx.options = *inputs[tensors + 3 : -1], not inputs[-1]

    return save


def _gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return calls.rope.default(grad, *ctx.saved_tensors, *ctx.options), *(None,) * 6


def _gradients_of_pair(ctx: Any, grad_x: Tensor, grad_k: Tensor) -> tuple[Any, ...]:
    return *calls.rope.pair(grad_x, grad_k, *ctx.saved_tensors, *ctx.options), *(None,) * 6


_OPTIONS = "Tensor cos, Tensor sin, Tensor? positions, int rotary_dim, bool interleaved, bool inverse"
_FIXED = ("cos", "sin", "positions")

OP = Op(
    name="rope",
    doc="rotary position embeddings of queries and keys, in either layout, forward and backward",
    function=rope,
    overloads=(
        Overload(
            name="default",
            schema=f"(Tensor x, {_OPTIONS}) -> Tensor",
            bind=kernels.bind,
            fake=kernels.fake,
            reference=reference.rope,
            backward=Backward(_saver(1), _gradient),
            terms=reference.terms,
            fixed=_FIXED,
            splits=splits.rope,
        ),
        Overload(
            name="pair",
            schema=f"(Tensor x, Tensor k, {_OPTIONS}) -> (Tensor, Tensor)",
            bind=kernels.bind_pair,
            fake=kernels.fake_pair,
            reference=reference.pair,
            backward=Backward(_saver(2), _gradients_of_pair),
            terms=reference.terms_of_pair,
            fixed=_FIXED,
            splits=splits.rope_pair,
        ),
        Overload(
            name="x_",
            schema=f"(Tensor(a!) x, {_OPTIONS}) -> ()",
            bind=kernels.bind_x_,
            fake=kernels.fake_x_,
            reference=reference.x_,
            terms=reference.terms,
            fixed=_FIXED,
            splits=splits.rope_written,
        ),
        Overload(
            name="pair_",
            schema=f"(Tensor(a!) x, Tensor(b!) k, {_OPTIONS}) -> ()",
            bind=kernels.bind_pair_,
            fake=kernels.fake_pair_,
            reference=reference.pair_,
            terms=reference.terms_of_pair,
            fixed=_FIXED,
            splits=splits.rope_pair_written,
        ),
    ),
    cases=cases.CASES,
    roles=cases.ROLES,
    benchmarks=cases.BENCHMARKS,
    make=cases.make,
    bytes=cases.traffic,
    flops=cases.flops,
    tolerances=cases.TOLERANCES,
    selfcheck=cases.selfcheck,
    eager=cases.EAGER,
)
