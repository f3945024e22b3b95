# SPDX-License-Identifier: MIT
"""The product of rows of 8-bit integers, scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._byte_products import caller, flops, traffic
from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._rules import flops_of_product
from kernelwright.ops._tensors import placement, refuse_freed, rows
from kernelwright.ops.int8 import _matmul as definition

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME, _FUNCTION = definition.NAME, "kw_matmul_int8"
_MANY_ROWS = 96  # from which on torch's product is the faster one on CPUs that have instructions for it


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
    factor: float,
    dtype: Any,
) -> Tensor:
    definition.check(x, weight, x_scale, weight_scale, bias, factor, dtype)
    return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=dtype)


def _torch_is_faster() -> bool:
    """Whether torch multiplies 8-bit integers on this CPU by instructions for that. Up to 2.5 its sums may overflow."""
    import torch

    new = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 6)
    return new and torch.backends.cpu.get_cpu_capability() == "AVX512"


def _by_torch(
    y: Tensor, x: Tensor, weight: Tensor, x_scale: Tensor | None, weight_scale: Tensor | None, bias: Any, factor: float
) -> Tensor:
    """Into y, in the order of the C function's operations."""
    import torch

    rows_of_y, left = y.view(-1, y.shape[-1]), x.reshape(-1, x.shape[-1]).contiguous()
    right = weight.contiguous().t()
    if y.dtype == torch.int32:
        torch._int_mm(left, right, out=rows_of_y)  # noqa: SLF001 - it has no public name
        return y
    value = torch._int_mm(left, right).float()  # noqa: SLF001
    by = None if x_scale is None else x_scale.reshape(-1, 1)
    if weight_scale is not None:
        by = weight_scale if by is None else by * weight_scale
    value = (value if by is None else value.mul_(by)).mul_(factor)
    rows_of_y.copy_(value if bias is None else value.add_(bias))
    return y


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    import torch

    place, call, by_torch = placement(library, key), caller(library, _FUNCTION, ("int32",)), _torch_is_faster()

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
        at = place(x)
        if by_torch and at[0] < 0 and y.numel() >= _MANY_ROWS * weight.shape[0] and x.shape[-1]:
            return _by_torch(y, x, weight, x_scale, weight_scale, bias, factor)
        factors = (x_scale, weight_scale, bias)
        return call(y, at, rows(x), rows(weight), factors, behind=(1.0 if dtype == torch.int32 else factor,))

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
