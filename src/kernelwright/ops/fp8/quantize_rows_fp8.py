# SPDX-License-Identifier: MIT
"""Rows into 8-bit floats (e4m3) with one scale a row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, rows
from kernelwright.ops.fp8 import _rows as definition

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME, _FUNCTION = definition.NAME, "kw_quantize_rows_fp8"


def quantize_rows_fp8(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantizes each row (last dimension) to 8-bit floats, torch.float8_e4m3fn, with one scale a row.

    `scale = largest |x| of the row / 448` and `codes = (x / scale).to(torch.float8_e4m3fn)`, in float32, bit for bit on
    every device (so torch on a GPU divides by a tensor; by a number of Python it multiplies with the reciprocal, which
    may differ in the last bit). Where the scale would be less than 2^-126 it is 1: a row of zeros has codes 0. A NaN
    makes the row's scale and all its codes NaN; an infinity makes the scale infinite, its own code NaN and the others
    0.

    x  float32, float16 or bfloat16, of any shape, on the CPU or a GPU. float64 works too, in plain torch, as float32

    Returns `(codes, scale)`: float8_e4m3fn of the shape of x, and float32 of its leading dimensions. Not
    differentiable.

    >>> codes, scale = kernelwright.quantize_rows_fp8(x)
    """
    codes, scale = calls.quantize_rows_fp8.default(x)
    return codes, scale


def _fake(x: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    definition.check(x)
    return x.new_empty(x.shape, dtype=torch.float8_e4m3fn), x.new_empty(x.shape[:-1], dtype=torch.float32)


def _bind(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    place, call = placement(library, key), library.functions["kw_call"]
    numbers = dtype_codes(library, definition.FLOATS[:3])
    pack, function = library.packer(_FUNCTION)

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        codes, scale = _fake(x)
        refuse_freed(_NAME, x=x)
        if x.dtype not in numbers:
            return definition.quantize(x)
        count, cols, number = math.prod(x.shape[:-1]), x.shape[-1], numbers[x.dtype]
        x, stride = rows(x)
        device, stream = place(x)
        status = call(
            pack(
                function, device, stream, codes.data_ptr(), cols, scale.data_ptr(), x.data_ptr(), stride, count, cols,
                number,
            )
        )  # fmt: skip
        if status:
            library.fail(_FUNCTION, status)
        return codes, scale

    return run


OP = Op(
    name=_NAME,
    doc="rows into 8-bit floats (e4m3) with one scale a row",
    function=quantize_rows_fp8,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x) -> (Tensor, Tensor)",
            bind=_bind,
            fake=_fake,
            reference=definition.quantize,
            rows=("x",),
        ),
    ),
    cases=definition.CASES,
    benchmarks=definition.BENCHMARKS,
    make=definition.make,
    bytes=definition.traffic,
    flops=lambda case: 4 * math.prod(case.shape),  # the size, a comparison, a quotient, the rounding
    tolerances=definition.EXACT,
    selfcheck=definition.selfcheck,
)
