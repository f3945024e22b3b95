# SPDX-License-Identifier: MIT
"""The product of rows of 8-bit integers, scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._direct import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, rows
from kernelwright.ops.int8 import _matmul as definition

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME, _FUNCTION = definition.NAME, "kw_matmul_int8"


def matmul_int8(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None = None,
    weight_scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    factor: float | None = None,
    dtype: Any = None,
) -> Tensor:
    """`(x @ weight.T) * x_scale * weight_scale * factor + bias` of 8-bit integers, with exact sums.

    x             int8, [..., k], k at most 131071, on the CPU or a GPU
    weight        int8, [n, k]
    x_scale       float32, [...], one factor a row of x, or None for 1
    weight_scale  float32, [n], or None for 1
    bias          float32, float16 or bfloat16, [n], or None
    factor        None: 1 / (127 * 127) where there are two scales, so that they are those of quantize_rows_int8; else 1
    dtype         of the result: torch.float32, torch.float16, torch.bfloat16, or torch.int32 for the sums alone;
                  torch.float64 is computed in plain torch. None: torch.float32 with a scale, torch.int32 without

    Returns [..., n]. Not differentiable. On a GPU rows that do not begin on 16 bytes take a slower kernel.

    >>> codes, scale = kernelwright.quantize_rows_int8(weight)
    >>> y = kernelwright.matmul_int8(*kernelwright.quantize_rows_int8(x)[:1], codes, x_scale, scale, dtype=x.dtype)
    """
    import torch

    scaled = x_scale is not None or weight_scale is not None
    if dtype is None:
        dtype = torch.float32 if scaled or bias is not None else torch.int32
    if factor is None:
        factor = definition.BY_ABSMAX if x_scale is not None and weight_scale is not None else 1.0
    result: Tensor = calls.matmul_int8.default(x, weight, x_scale, weight_scale, bias, factor, dtype)
    return result


def _fake(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None,
    weight_scale: Tensor | None,
    bias: Tensor | None,
    factor: float,  # noqa: ARG001 - the schema's
    dtype: Any,
) -> Tensor:
    definition.check(x, weight, x_scale, weight_scale, bias, dtype)
    return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=dtype)


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    import torch

    numbers = dtype_codes(library, (*definition.FLOATS, "int32"))
    place, call = placement(library, key), library.functions["kw_call"]
    pack, function = library.packer(_FUNCTION)

    def run(
        x: Tensor,
        weight: Tensor,
        x_scale: Tensor | None,
        weight_scale: Tensor | None,
        bias: Tensor | None,
        factor: float,
        dtype: Any,
    ) -> Tensor:
        y = _fake(x, weight, x_scale, weight_scale, bias, factor, dtype)
        refuse_freed(_NAME, x=x, weight=weight, x_scale=x_scale, weight_scale=weight_scale, bias=bias)
        if not y.numel():
            return y
        if dtype == torch.float64:
            return definition.matmul(x, weight, x_scale, weight_scale, bias, factor, dtype)
        (left, left_stride), (right, right_stride) = rows(x), rows(weight)
        small = [t if t is None else t.contiguous() for t in (x_scale, weight_scale, bias)]
        (device, stream), n = place(x), weight.shape[0]
        status = call(
            pack(
                function, device, stream, y.data_ptr(), n, left.data_ptr(), left_stride, right.data_ptr(), right_stride,
                *(0 if t is None else t.data_ptr() for t in small), y.numel() // n, n, x.shape[-1], numbers[dtype],
                numbers[torch.float32 if bias is None else bias.dtype], 1.0 if dtype == torch.int32 else factor,
            )
        )  # fmt: skip
        if status:
            library.fail(_FUNCTION, status)
        return y

    return run


OP = Op(
    name=_NAME,
    doc="product of 8-bit integers with exact sums, scaled by rows and columns, with a bias",
    function=matmul_int8,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor weight, Tensor? x_scale, Tensor? weight_scale, Tensor? bias, float factor, "
            "ScalarType dtype) -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=definition.matmul,
            terms=definition.terms,
            fixed=("x", "weight", "x_scale", "weight_scale", "bias"),
        ),
    ),
    cases=definition.CASES,
    benchmarks=definition.BENCHMARKS,
    make=definition.make,
    bytes=definition.traffic,
    flops=definition.flops,
    tolerances=definition.TOLERANCES,
    selfcheck=definition.selfcheck,
)
