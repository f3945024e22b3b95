# SPDX-License-Identifier: MIT
"""Attention of few queries with a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops.attention import _decode_cases as cases
from kernelwright.ops.attention import _decode_launch as kernels
from kernelwright.ops.attention import _decode_reference as reference
from kernelwright.ops.attention import _flops as count
from kernelwright.ops.attention import _splits as splits
from kernelwright.ops.attention._checks import IN_PYTHON

if TYPE_CHECKING:
    from torch import Tensor


def attention_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Tensor | None = None,
    *,
    k_new: Tensor | None = None,
    v_new: Tensor | None = None,
    block_table: Tensor | None = None,
    batch_index: Tensor | None = None,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    interleaved: bool = False,
    sinks: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    splits: int = 0,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of a few queries with a cache of keys and values, of which each sequence has filled `lengths` rows.

    q             [batch, heads, queries, d], float16 or bfloat16, on the CPU float32 too
    k, v          caches [batch, kv_heads, rows, d or d_v], or pages [pages, kv_heads, rows of a page, ...]
    lengths       [batch], int32, read on the device; None where the caches are full
    k_new, v_new  rows to be written behind those first: [batch, kv_heads, new rows, ...]
    block_table   [batch, pages of a sequence], int32; or batch_index [batch], int32: which batch of the caches
    cos, sin      with k_new: [max_positions, d / 2 or less], of q's type: rope of both, `interleaved` of neighbours
    splits        parts that the keys are split in; 0 for as many as fill the GPU. Others: as in attention

    Returns [batch, heads, queries, d_v]. One CUDA graph of it serves a growing cache. Not differentiable.

    >>> out = kernelwright.attention_decode(q, k_cache, v_cache, lengths, k_new=k, v_new=v, causal=True)
    """
    left, right = window
    number = float(q.shape[-1] ** -0.5 if scale is None and q.dim() else scale or 0.0)
    options = number, causal, left, right, softcap
    places = lengths, block_table, batch_index
    out: Any
    if k_new is None or v_new is None:
        kernels.refuse_alone(k_new, v_new, cos, sin)
        out, lse = calls.attention_decode.default(q, k, v, *places, sinks, alibi_slopes, *options, splits)
    else:
        out, lse = calls.attention_decode.append(
            q, k, v, k_new, v_new, *places, cos, sin, sinks, alibi_slopes, *options, interleaved, splits
        )
    return (out, lse) if return_lse else out


_OPTIONS = "float scale, bool causal, int window_left, int window_right, float softcap"
_FIXED = ("lengths", "block_table", "batch_index", "sinks", "alibi_slopes")

OP = Op(
    name="attention_decode",
    doc="attention of few queries with a cache, in one piece or in pages, which takes new rows in the same call",
    function=attention_decode,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor q, Tensor k, Tensor v, Tensor? lengths, Tensor? block_table, Tensor? batch_index, "
            f"Tensor? sinks, Tensor? alibi_slopes, {_OPTIONS}, int splits) -> (Tensor, Tensor)",
            bind=kernels.bind,
            fake=kernels.fake,
            reference=reference.decode,
            in_python=IN_PYTHON,
            reads_on_host=True,
            splits=splits.decode,
            terms=reference.terms,
            fixed=_FIXED,
        ),
        Overload(
            name="append",
            schema="(Tensor q, Tensor(a!) k, Tensor(b!) v, Tensor k_new, Tensor v_new, Tensor? lengths, "
            "Tensor? block_table, Tensor? batch_index, Tensor? cos, Tensor? sin, Tensor? sinks, Tensor? alibi_slopes, "
            f"{_OPTIONS}, bool interleaved, int splits) -> (Tensor, Tensor)",
            bind=kernels.bind_append,
            fake=kernels.fake_append,
            reference=reference.append,
            in_python=IN_PYTHON,
            reads_on_host=True,
            splits=splits.append,
            terms=reference.terms_of_append,
            fixed=_FIXED,
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
    flop_formula=count.decode,
    flops_by_values=True,
    eager=cases.EAGER,
)
