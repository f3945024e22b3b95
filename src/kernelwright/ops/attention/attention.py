# SPDX-License-Identifier: MIT
"""Scaled dot-product attention of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Backward, Op, Overload
from kernelwright.ops.attention import _cases as cases
from kernelwright.ops.attention import _flops as count
from kernelwright.ops.attention import _launch as kernels
from kernelwright.ops.attention import _reference as reference
from kernelwright.ops.attention import _splits as splits
from kernelwright.ops.attention._checks import IN_PYTHON

if TYPE_CHECKING:
    from torch import Tensor


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    sinks: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    return_lse: bool = False,
    deterministic: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`softmax(q @ k.T * scale) @ v` for each head, without the scores ever being in memory.

    q             [batch, heads, queries, d], float16 or bfloat16, on a GPU or the CPU; float32 and float64 are computed
                  in plain torch
    k, v          [batch, kv_heads, keys, d] and [batch, kv_heads, keys, d_v]; kv_heads divides heads
    mask          broadcast to [batch, heads, queries, keys]: bool, True where a key takes part; or of a float type,
                  added to the scores. Gradients by it are taken in plain torch
    sinks         [heads]: one more score of each row, of no key
    alibi_slopes  [heads] or [batch, heads], float32: a score is less by its head's slope times the key's distance
    scale         None for d ** -0.5
    causal        a query sees no key behind its position; positions count from the end
    window        how many keys before and behind its place a query sees; -1 for all
    softcap       not 0: scores become softcap * tanh(score / softcap)
    return_lse    also the logarithm of each row's sum, float32 [batch, heads, queries]
    deterministic   gradients have the same bits each time

    Returns [batch, heads, queries, d_v]; in memory a row has all heads, so that .transpose(1, 2) is contiguous.
    A row that sees no key is zero. Differentiable in q, k, v and sinks; in what is added, in
    slopes and in lse too, and twice, but that is computed with all scores in memory.

    >>> out = kernelwright.attention(q, k, v, causal=True)
    """
    import torch

    whole = mask is not None and mask.dtype in (torch.bool, torch.uint8)
    number = q.shape[-1] ** -0.5 if scale is None and q.dim() else scale
    out, lse = calls.attention.default(
        q, k, v, mask if whole else None, None if whole else mask, sinks, alibi_slopes, float(number or 0.0), causal,
        window[0], window[1], softcap, deterministic,
    )  # fmt: skip
    return (out, lse) if return_lse else out


def _fake(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, sinks: Tensor | None,
    alibi_slopes: Tensor | None, scale: float, causal: bool, window_left: int, window_right: int, softcap: float,
    deterministic: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    options = scale, causal, window_left, window_right, softcap, deterministic
    kernels.check(q, k, v, mask, bias, sinks, alibi_slopes, *options)
    batch, heads, queries, _ = q.shape
    out = q.new_empty((batch, queries, heads, v.shape[3])).transpose(1, 2)
    return out, q.new_empty((batch, heads, queries), dtype=reference.wide_type(q))


def _fake_backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, mask: Tensor | None, bias: Tensor | None,
    sinks: Tensor | None, alibi_slopes: Tensor | None, scale: float, causal: bool, window_left: int,
    window_right: int, softcap: float, deterministic: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    options = scale, causal, window_left, window_right, softcap, deterministic
    kernels.check_backward(dout, q, k, v, out, lse, mask, bias, sinks, alibi_slopes, *options)
    made = [t.new_empty((t.shape[0], t.shape[2], t.shape[1], t.shape[3])).transpose(1, 2) for t in (q, k, v)]
    wide = reference.wide_type(q)
    return (*made, q.new_empty(0, dtype=wide) if sinks is None else sinks.new_empty(sinks.shape, dtype=wide))


_SCORES = "Tensor? mask, Tensor? bias, Tensor? sinks, Tensor? alibi_slopes"
_OPTIONS = "float scale, bool causal, int window_left, int window_right, float softcap, bool deterministic"

OP = Op(
    name="attention",
    doc="scaled dot-product attention (grouped heads, causal, window, softcap, sinks, ALiBi, masks)",
    function=attention,
    overloads=(
        Overload(
            name="default",
            schema=f"(Tensor q, Tensor k, Tensor v, {_SCORES}, {_OPTIONS}) -> (Tensor, Tensor)",
            bind=kernels.bind,
            fake=_fake,
            reference=reference.attention,
            in_python=IN_PYTHON,
            backward=Backward(kernels.save, kernels.gradients),
            splits=splits.attention,
            terms=reference.terms,
            fixed=("mask", "sinks", "alibi_slopes"),
        ),
        Overload(
            name="backward",
            schema=f"(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_SCORES}, {_OPTIONS}) "
            "-> (Tensor, Tensor, Tensor, Tensor)",
            bind=kernels.bind_backward,
            fake=_fake_backward,
            reference=reference.backward,
            overflows_on_gpu=True,
            in_python=IN_PYTHON,
            splits=splits.backward,
            terms=reference.backward_terms,
            fixed=("lse", "mask", "sinks", "alibi_slopes"),
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
    torch_on_gpu=("float32",),
    flop_formula=count.attention,
    eager=cases.EAGER,
)
