# SPDX-License-Identifier: MIT
"""What the codes of a ternary weight stand for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed
from kernelwright.ops.ternary import _cases as cases
from kernelwright.ops.ternary import _codes as codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME = "dequantize_ternary"


def dequantize_ternary(packed: Tensor, scale: Tensor, *, n: int, k: int, dtype: Any = None) -> Tensor:
    """The matrix that ternary codes stand for: each element -scale, 0 or scale.

    packed, scale  as quantize_ternary gives them, on the CPU or a GPU
    n, k           the weight's rows and columns
    dtype          bfloat16 (the default), float16, float32 or float64 of the result

    Returns [n, k], contiguous. Not differentiable.

    >>> weight = kernelwright.dequantize_ternary(packed, scale, n=n, k=k)
    """
    import torch

    found: Tensor = calls.dequantize_ternary.default(packed, scale, n, k, dtype or torch.bfloat16)
    return found


def _fake(packed: Tensor, scale: Tensor, n: int, k: int, dtype: Any) -> Tensor:
    if dtype not in (allowed := codes.dtypes(codes.FLOATS)):
        raise InvalidArgument(f"{_NAME}: dtype is {dtype}, but must be {' or '.join([str(kind) for kind in allowed])}")
    codes.check_packed(_NAME, packed, n, k, packed)
    codes.check_scale(_NAME, scale, n, packed)
    return packed.new_empty((n, k), dtype=dtype)


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    numbers = dtype_codes(library, codes.FLOATS[:3])
    place, call = placement(library, key), library.functions["kw_call"]
    pack, function = library.packer("kw_dequantize_ternary")

    def run(packed: Tensor, scale: Tensor, n: int, k: int, dtype: Any) -> Tensor:
        y = _fake(packed, scale, n, k, dtype)
        refuse_freed(_NAME, packed=packed, scale=scale)
        if dtype not in numbers:
            return codes.dequantize(packed, scale, n, k, dtype)
        if y.numel():
            packed, scale = codes.aligned(packed), scale.contiguous()
            device, stream = place(packed)
            of = packed.data_ptr(), scale.data_ptr(), scale.numel()
            status = call(pack(function, device, stream, y.data_ptr(), k, *of, n, k, numbers[dtype]))
            if status:
                library.fail("kw_dequantize_ternary", status)
        return y

    return run


OP = Op(
    name=_NAME,
    doc="codes of a ternary weight back to floats",
    function=dequantize_ternary,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor packed, Tensor scale, int n, int k, ScalarType dtype) -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=codes.dequantize,
            fixed=("packed", "scale"),
        ),
    ),
    cases=cases.CODE_CASES,
    benchmarks=cases.CODE_BENCHMARKS,
    make=cases.make_codes,
    bytes=cases.traffic_of_codes,
    flops=lambda case: math.prod(case.shape),
    tolerances=cases.TOLERANCES,
    selfcheck=cases.selfcheck_dequantize,
)
