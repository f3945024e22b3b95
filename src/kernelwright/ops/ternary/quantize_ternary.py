# SPDX-License-Identifier: MIT
"""Weights to codes of -1, 0 and 1."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, require_dtype, rows
from kernelwright.ops.ternary import _cases as cases
from kernelwright.ops.ternary import _codes as codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME = "quantize_ternary"


def quantize_ternary(weight: Tensor, per_row: bool = False) -> tuple[Tensor, Tensor]:
    """Quantizes a weight to -1, 0 and 1, with one scale: that of BitNet b1.58.

    weight   float32, float16, bfloat16 or float64, [n, k], on the CPU or a GPU; computed in float32
    per_row  a scale for each row instead of one for all

    Returns `(packed, scale)`: the codes, two bits each, uint8, in an order of their own
    (kernelwright.nn.unpack_ternary gives the matrix, dequantize_ternary the values); and the mean size of the weights,
    at least 1e-5, float32, [1] or [n]. A code is weight * (1 / scale), rounded half to even, from -1 to 1. Not
    differentiable; kernelwright.nn.BitLinear trains through it.

    >>> packed, scale = kernelwright.quantize_ternary(weight)
    """
    found: tuple[Tensor, Tensor] = calls.quantize_ternary.default(weight, per_row)
    return found


def _fake(weight: Tensor, per_row: bool) -> tuple[Tensor, Tensor]:
    import torch

    require_dtype(_NAME, "weight", weight, codes.dtypes(codes.FLOATS))
    if weight.dim() != 2:
        raise InvalidArgument(f"{_NAME}: weight has shape {tuple(weight.shape)}, but must have two dimensions, [n, k]")
    n, k = weight.shape
    codes.check_sizes(_NAME, n, k)
    packed = weight.new_empty(codes.packed_shape(n, k), dtype=torch.uint8)
    return packed, weight.new_empty((n if per_row else 1,), dtype=torch.float32)


def _bind(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    numbers = dtype_codes(library, codes.FLOATS[:3])
    place, call = placement(library, key), library.functions["kw_call"]
    pack, function = library.packer("kw_quantize_ternary")

    def run(weight: Tensor, per_row: bool) -> tuple[Tensor, Tensor]:
        packed, scale = _fake(weight, per_row)
        refuse_freed(_NAME, weight=weight)
        if scale.numel():
            n, k = weight.shape
            weight, stride = rows(weight if weight.dtype in numbers else weight.float())
            device, stream = place(weight)
            to = packed.data_ptr(), scale.data_ptr(), scale.numel()
            status = call(pack(function, device, stream, *to, weight.data_ptr(), stride, n, k, numbers[weight.dtype]))
            if status:
                library.fail("kw_quantize_ternary", status)
        return packed, scale

    return run


OP = Op(
    name=_NAME,
    doc="a weight to codes of -1, 0 and 1 with one scale or one a row",
    function=quantize_ternary,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor weight, bool per_row) -> (Tensor, Tensor)",
            bind=_bind,
            fake=_fake,
            reference=codes.quantize,
        ),
    ),
    cases=cases.CODE_CASES,
    benchmarks=cases.CODE_BENCHMARKS,
    make=cases.make_weight,
    bytes=cases.traffic_of_codes,
    flops=lambda case: 4 * math.prod(case.shape),
    tolerances=cases.TOLERANCES,
    selfcheck=cases.selfcheck_quantize,
)
