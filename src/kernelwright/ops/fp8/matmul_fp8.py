# SPDX-License-Identifier: MIT
"""The product of rows of 8-bit floats (e4m3), scaled, with bias and activation."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernelwright.ops._byte_products import caller, flops, traffic
from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._rules import flops_of_product
from kernelwright.ops._tensors import placement, refuse_freed, rows
from kernelwright.ops.fp8 import _matmul as definition
from kernelwright.ops.linear._reference import ACTIVATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME, _FUNCTION = definition.NAME, "kw_matmul_fp8"
_ALIGNMENT = 16  # what the kernels for tensor cores want of addresses and rows


def matmul_fp8(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None = None,
    weight_scale: Tensor | None = None,
    bias: Tensor | None = None,
    activation: str | None = None,
    *,
    dtype: Any = None,
) -> Tensor:
    """`activation((x @ weight.T) * x_scale * weight_scale + bias)` of 8-bit floats, summed in float32.

    x             float8_e4m3fn, [..., k], on the CPU or a GPU
    weight        float8_e4m3fn, [n, k]
    x_scale       float32, [...], one factor a row of x, or None for 1
    weight_scale  float32, [n], or None for 1
    bias          float32, float16 or bfloat16, [n], or None
    activation    "relu", "squared_relu", "silu", "gelu" (exact), "gelu_tanh", or None
    dtype         of the result: torch.float32, torch.float16, torch.bfloat16; torch.float64 is computed in plain torch.
                  None: torch.bfloat16

    Returns [..., n]. Not differentiable. Tensor cores keep about 14 bits of a sum of such products; their sums are
    added to float32 every 128 of k, as torch._scaled_mm does with use_fast_accum=False. More than 16 rows on GPUs whose
    FP8 tensor cores this wheel has no kernel for, and rows that do not begin on 16 bytes, take torch's product of the
    dequantized matrices, in the type of the result.

    >>> (codes, scale), (left, by) = kernelwright.quantize_rows_fp8(weight), kernelwright.quantize_rows_fp8(x)
    >>> y = kernelwright.matmul_fp8(left, codes, by, scale, bias, "silu", dtype=x.dtype)
    """
    import torch

    dtype = torch.bfloat16 if dtype is None else dtype
    name = "none" if activation is None else activation
    result: Tensor = calls.matmul_fp8.default(x, weight, x_scale, weight_scale, bias, name, dtype)
    return result


def _fake(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None,
    weight_scale: Tensor | None,
    bias: Tensor | None,
    activation: str,
    dtype: Any,
) -> Tensor:
    definition.check(x, weight, x_scale, weight_scale, bias, activation, dtype)
    return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=dtype)


def _decider(library: Library) -> Callable[..., bool]:
    """fits(device, m, n, k, alignment): whether the library's kernels are made for such a call."""

    @lru_cache(maxsize=1024)
    def fits(device: int, *numbers: int) -> bool:
        yes = ctypes.c_int32()
        library.call(f"{_FUNCTION}_fits", device, *numbers, ctypes.addressof(yes))
        return bool(yes.value)

    return fits


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    import torch

    place, call, fits = placement(library, key), caller(library, _FUNCTION), _decider(library)

    def run(
        x: Tensor,
        weight: Tensor,
        x_scale: Tensor | None,
        weight_scale: Tensor | None,
        bias: Tensor | None,
        activation: str,
        dtype: Any,
    ) -> Tensor:
        y = _fake(x, weight, x_scale, weight_scale, bias, activation, dtype)
        refuse_freed(_NAME, x=x, weight=weight, x_scale=x_scale, weight_scale=weight_scale, bias=bias)
        if not y.numel():
            return y
        if dtype == torch.float64:
            return definition.matmul(x, weight, x_scale, weight_scale, bias, activation, dtype)
        at, left, right = place(x), rows(x), rows(weight)
        n, k = weight.shape
        together = left[0].data_ptr() | right[0].data_ptr() | left[1] | right[1]
        if not fits(at[0], y.numel() // n, n, k, 1 if together % _ALIGNMENT else _ALIGNMENT):
            return definition.by_torch(x, weight, x_scale, weight_scale, bias, activation, dtype)
        return call(y, at, left, right, (x_scale, weight_scale, bias), before=(ACTIVATIONS.index(activation),))

    return run


OP = Op(
    name=_NAME,
    doc="product of 8-bit floats (e4m3), scaled by rows and columns, with a bias and an activation",
    function=matmul_fp8,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor weight, Tensor? x_scale, Tensor? weight_scale, Tensor? bias, str activation, "
            "ScalarType dtype) -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=definition.matmul,
            terms=definition.terms,
            fixed=("x", "weight", "x_scale", "weight_scale", "bias"),
            rows=("x", "x_scale"),
        ),
    ),
    cases=definition.CASES,
    benchmarks=definition.BENCHMARKS,
    make=definition.make,
    bytes=traffic,
    flops=flops,
    flop_formula=flops_of_product,
    tolerances=definition.TOLERANCES,
    selfcheck=definition.selfcheck,
)
