# SPDX-License-Identifier: MIT
"""Scaled dot-product attention of sequences of different lengths, without padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Backward, Op, Overload
from kernelwright.ops.attention import _cases
from kernelwright.ops.attention import _flops as count
from kernelwright.ops.attention import _reference as reference
from kernelwright.ops.attention import _splits as splits
from kernelwright.ops.attention import _varlen as varlen
from kernelwright.ops.attention import _varlen_cases as cases
from kernelwright.ops.attention._checks import IN_PYTHON

if TYPE_CHECKING:
    from torch import Tensor


def attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    sinks: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    return_lse: bool = False,
    deterministic: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`kernelwright.attention` of sequences that lie one after the other.

    q             [total_q, heads, d], float16 or bfloat16, on a GPU or the CPU; float32 and float64 are computed in
                  plain torch on a GPU
    k, v          [total_k, kv_heads, d] and [total_k, kv_heads, d_v]
    cu_seqlens_q, cu_seqlens_k   int32 [batch + 1]: sequence i has the rows from element i to element i + 1
    max_q, max_k  the longest sequence's queries and keys. Rows of no sequence are padding: zeros in the results
    alibi_slopes  [heads] or [batch, heads]

    The others are as kernelwright.attention's. Returns [total_q, heads, d_v]; with return_lse also [heads, total_q].

    >>> out = kernelwright.attention_varlen(q, k, v, starts, starts, longest, longest, causal=True)
    """
    number = q.shape[-1] ** -0.5 if scale is None and q.dim() else scale
    out, lse = calls.attention_varlen.default(
        q, k, v, cu_seqlens_q, cu_seqlens_k, sinks, alibi_slopes, max_q, max_k, float(number or 0.0), causal,
        window[0], window[1], softcap, deterministic,
    )  # fmt: skip
    return (out, lse) if return_lse else out


def _fake(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, sinks: Tensor | None,
    alibi_slopes: Tensor | None, max_q: int, max_k: int, scale: float, causal: bool, window_left: int,
    window_right: int, softcap: float, deterministic: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    rest = sinks, alibi_slopes, max_q, max_k, scale, causal, window_left, window_right, softcap, deterministic
    varlen.check(q, k, v, cu_seqlens_q, cu_seqlens_k, *rest)
    out = q.new_empty((*q.shape[:2], v.shape[2]))
    return out, q.new_empty((q.shape[1], q.shape[0]), dtype=reference.wide_type(q))


def _fake_backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor, sinks: Tensor | None,
    alibi_slopes: Tensor | None, max_q: int, max_k: int, scale: float, causal: bool, window_left: int,
    window_right: int, softcap: float, deterministic: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    rest = sinks, alibi_slopes, max_q, max_k, scale, causal, window_left, window_right, softcap, deterministic
    varlen.check_backward(dout, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, *rest)
    dsinks = q.new_empty(0 if sinks is None else q.shape[1], dtype=reference.wide_type(q))
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape), dsinks


_SEQUENCES = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? sinks, Tensor? alibi_slopes, int max_q, int max_k"
_OPTIONS = "float scale, bool causal, int window_left, int window_right, float softcap, bool deterministic"
_FIXED = ("cu_seqlens_q", "cu_seqlens_k", "sinks", "alibi_slopes")

OP = Op(
    name="attention_varlen",
    doc="the same of sequences of different lengths that lie one after the other",
    function=attention_varlen,
    overloads=(
        Overload(
            name="default",
            schema=f"(Tensor q, Tensor k, Tensor v, {_SEQUENCES}, {_OPTIONS}) -> (Tensor, Tensor)",
            bind=varlen.bind,
            fake=_fake,
            reference=varlen.attention,
            in_python=IN_PYTHON,
            reads_on_host=True,
            backward=Backward(varlen.save, varlen.gradients),
            splits=splits.varlen,
            terms=varlen.terms,
            fixed=_FIXED,
        ),
        Overload(
            name="backward",
            schema=f"(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_SEQUENCES}, {_OPTIONS}) "
            "-> (Tensor, Tensor, Tensor, Tensor)",
            bind=varlen.bind_backward,
            fake=_fake_backward,
            reference=varlen.backward,
            overflows_on_gpu=True,
            in_python=IN_PYTHON,
            reads_on_host=True,
            splits=splits.varlen_backward,
            terms=varlen.backward_terms,
            fixed=("lse", *_FIXED),
        ),
    ),
    cases=cases.CASES,
    roles=cases.ROLES,
    benchmarks=cases.BENCHMARKS,
    make=cases.make,
    bytes=cases.traffic,
    flops=cases.flops,
    tolerances=_cases.TOLERANCES,
    selfcheck=cases.selfcheck,
    torch_on_gpu=("float32",),
    flop_formula=count.varlen,
    flops_by_values=True,
)
