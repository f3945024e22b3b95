# SPDX-License-Identifier: MIT
"""Scaled dot-product attention of 8-bit floats (e4m3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops.attention import _flops as count
from kernelwright.ops.attention import _fp8 as definition
from kernelwright.ops.attention import _fp8_cases as cases
from kernelwright.ops.attention import _splits as splits
from kernelwright.ops.attention._cases import flops
from kernelwright.ops.attention._checks import IN_PYTHON

if TYPE_CHECKING:
    from torch import Tensor


def attention_fp8(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    q_scale: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    dtype: Any = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`softmax(q @ k.T * (q_scale * k_scale * scale)) @ v * v_scale` for each head, of 8-bit floats.

    q                 [batch, heads, queries, d], float8_e4m3fn, on a GPU or the CPU
    k, v              [batch, kv_heads, keys, d] and [batch, kv_heads, keys, d_v]; kv_heads divides heads
    q_scale           float32, what q's numbers are to be multiplied by: one number, [heads] or [batch, heads]; None: 1
    k_scale, v_scale  the same of k and v, whose heads are kv_heads
    scale             None for d ** -0.5
    causal            a query sees no key behind its position; positions count from the end
    window            how many keys before and behind its place a query sees; -1 for all
    dtype             of the result: torch.bfloat16, torch.float16, torch.float32; torch.float64 is computed in plain
                      torch. None: torch.bfloat16
    return_lse        also the logarithm of each row's sum, float32 [batch, heads, queries]

    Returns [batch, heads, queries, d_v]; in memory a row has all heads. A row that sees no key is zero. Not
    differentiable. Factors stay on the device. Heads of 64 and of 128 elements whose rows begin on 16 bytes take
    Hopper's FP8 tensor cores: they keep about 14 bits of a sum, and shares are rounded to e4m3, by up to 6 % of each,
    before they multiply v. Other calls take kernelwright.attention of what the numbers stand for, small ones a kernel
    in float32.

    >>> amax = q.abs().amax((-1, -2), keepdim=True).float()  # of each head
    >>> codes, q_scale = (q * (448 / amax)).to(torch.float8_e4m3fn), (amax / 448)[..., 0, 0]
    >>> out = kernelwright.attention_fp8(codes, k, v, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, causal=True)
    """
    import torch

    number = q.shape[-1] ** -0.5 if scale is None and q.dim() and q.shape[-1] else scale
    out, lse = calls.attention_fp8.default(
        q, k, v, q_scale, k_scale, v_scale, float(number or 0.0), causal, window[0], window[1],
        torch.bfloat16 if dtype is None else dtype,
    )  # fmt: skip
    return (out, lse) if return_lse else out


def _fake(
    q: Tensor, k: Tensor, v: Tensor, q_scale: Tensor | None, k_scale: Tensor | None, v_scale: Tensor | None,
    scale: float, causal: bool, window_left: int, window_right: int, dtype: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    import torch

    definition.check(q, k, v, q_scale, k_scale, v_scale, scale, causal, window_left, window_right, dtype)
    batch, heads, queries, _ = q.shape
    out = q.new_empty((batch, queries, heads, v.shape[3]), dtype=dtype).transpose(1, 2)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return out, q.new_empty((batch, heads, queries), dtype=wide)


OP = Op(
    name=definition.NAME,
    doc="attention of 8-bit floats (e4m3) with a factor for each tensor or head (grouped heads, causal, window)",
    function=attention_fp8,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor q, Tensor k, Tensor v, Tensor? q_scale, Tensor? k_scale, Tensor? v_scale, float scale, "
            "bool causal, int window_left, int window_right, ScalarType dtype) -> (Tensor, Tensor)",
            bind=definition.bind,
            fake=_fake,
            reference=definition.attention,
            in_python=IN_PYTHON,
            splits=splits.attention_fp8,
            terms=definition.terms,
            fixed=("q", "k", "v", "q_scale", "k_scale", "v_scale"),
        ),
    ),
    cases=cases.CASES,
    roles=cases.ROLES,
    benchmarks=cases.BENCHMARKS,
    make=cases.make,
    bytes=cases.traffic,
    flops=flops,
    tolerances=cases.TOLERANCES,
    selfcheck=cases.selfcheck,
    flop_formula=count.attention,
    eager=cases.EAGER,
)
