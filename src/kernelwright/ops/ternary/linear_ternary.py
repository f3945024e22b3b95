# SPDX-License-Identifier: MIT
"""A linear layer of a ternary weight in one operator: norm, quantization of rows, product, residual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._rules import flops_of_product
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, require_dtype, require_like, rows, settled
from kernelwright.ops.int8 import _rows as quantization
from kernelwright.ops.ternary import _codes as codes
from kernelwright.ops.ternary import _linear as cases
from kernelwright.ops.ternary import matmul_ternary as product

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME, _FUNCTION = "linear_ternary", "kw_linear_ternary"
_ROWS = 16
"""That a launch takes: of more, the two operators are faster. csrc/ops/ternary/params.h has the number too."""


def linear_ternary(
    x: Tensor,
    packed: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    n: int,
    weight: Tensor | None = None,
    eps: float | None = None,
    clamp: float = 1e-5,
    residual: Tensor | None = None,
) -> Tensor:
    """`matmul_ternary` of what `quantize_rows_int8` makes of x, plus `residual`: the same bits. Of few rows one launch.

    x         float32, float16 or bfloat16, [..., k], on the CPU or a GPU. float64 works too, in plain torch
    packed    the weight's codes, of quantize_ternary or pack_ternary
    scale     float32, what 1 stands for in the weight: one for all, or one for each of its rows; None: 1
    bias      [n], of x's dtype, or None
    n         the weight's rows
    eps       quantize the RMS norm `x / sqrt(mean(x * x) + eps) * weight` instead of x; None: no norm
    weight    with eps: one factor a column, of x's dtype or float32; None for no factor
    clamp     the least absmax of a row
    residual  [..., n], of x's dtype: is added to the rounded product; or None

    Returns [..., n], of x's dtype. Not differentiable; kernelwright.nn.BitLinear is. More than 16 rows on a GPU are
    the two operators and an addition.

    >>> y = kernelwright.linear_ternary(x, packed, scale, n=n, weight=norm.weight, eps=1e-5, residual=hidden)
    """
    norm = quantization.norms_eps(_NAME, eps)
    found: Tensor = calls.linear_ternary.default(x, packed, scale, bias, weight, norm, clamp, residual, n)
    return found


def _fake(
    x: Tensor,
    packed: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    weight: Tensor | None,
    eps: float,
    clamp: float,
    residual: Tensor | None,
    n: int,
) -> Tensor:
    quantization.check(x, weight, eps, clamp, _NAME)
    codes.check_packed(_NAME, packed, n, x.shape[-1], x)
    if scale is not None:
        codes.check_scale(_NAME, scale, n, x)
    product.check_bias(_NAME, bias, n, x.dtype, x)
    if residual is not None:
        require_dtype(_NAME, "residual", residual, (x.dtype,))
        require_like(_NAME, "residual", residual, "x", x, (*x.shape[:-1], n))
    return x.new_empty((*x.shape[:-1], n))


def _reference(
    x: Tensor, packed: Tensor, scale: Any, bias: Any, weight: Any, eps: float, clamp: float, residual: Any, n: int
) -> Tensor:
    quantized, absmax = quantization.quantize(x, weight, eps, clamp)
    found = product._reference(quantized, packed, absmax, scale, bias, n, x.dtype)  # noqa: SLF001
    return settled(found if residual is None else found + residual, x.dtype)


def _terms(
    x: Tensor, packed: Tensor, scale: Any, bias: Any, weight: Any, eps: float, clamp: float, residual: Any, n: int
) -> tuple[Tensor]:
    """What is rounded before the residual is added, and what may nearly cancel."""
    import torch

    quantized, absmax = quantization.quantize(x, weight, eps, clamp)
    (size,) = product._terms(quantized, packed, absmax, scale, bias, n, torch.float64)  # noqa: SLF001
    if residual is not None:
        return (size + residual.abs().double(),)
    return (size * (0.0 if bias is None else 1.0),)


def _apart(
    x: Tensor, packed: Tensor, scale: Any, bias: Any, weight: Any, eps: float, clamp: float, residual: Any, n: int
) -> Tensor:
    """More rows than a launch takes."""
    quantized, absmax = calls.quantize_rows_int8.default(x, weight, eps, clamp)
    y: Tensor = calls.matmul_ternary.default(quantized, packed, absmax, scale, bias, n, x.dtype)
    return y if residual is None else y.add_(residual)


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    numbers = dtype_codes(library, quantization.FLOATS[:3])
    place, call = placement(library, key), library.functions["kw_call"]
    pack, function = library.packer(_FUNCTION)

    def run(
        x: Tensor, packed: Tensor, scale: Any, bias: Any, weight: Any, eps: float, clamp: float, residual: Any, n: int
    ) -> Tensor:
        given = packed, scale, bias, weight, eps, clamp, residual, n
        y = _fake(x, *given)
        refuse_freed(_NAME, x=x, packed=packed, scale=scale, bias=bias, weight=weight, residual=residual)
        if x.dtype not in numbers:
            return _reference(x, *given)
        if not y.numel():
            return y
        m = y.numel() // n
        if x.is_cuda and m > _ROWS:
            return _apart(x, *given)
        (x, stride), k, kind = rows(x), x.shape[-1], numbers[x.dtype]
        packed = codes.aligned(packed)
        scale, bias, weight = (None if each is None else each.contiguous() for each in (scale, bias, weight))
        added, added_stride = (None, n) if residual is None else rows(residual)
        at = [0 if each is None else each.data_ptr() for each in (weight, packed, scale, bias, added)]
        device, stream = place(x)
        status = call(
            pack(
                function, device, stream, y.data_ptr(), n, x.data_ptr(), stride, at[0], at[1], at[2],
                1 if scale is None else scale.numel(), at[3], at[4], added_stride, m, n, k, kind,
                kind if weight is None else numbers[weight.dtype], clamp, eps,
            )
        )  # fmt: skip
        if status:
            library.fail(_FUNCTION, status)
        return y

    return run


OP = Op(
    name=_NAME,
    doc="a linear layer of a ternary weight: RMS norm, quantization of rows, product, residual; of few rows one launch",
    function=linear_ternary,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor packed, Tensor? scale, Tensor? bias, Tensor? weight, float eps, float clamp, "
            "Tensor? residual, int n) -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=_reference,
            terms=_terms,
            fixed=("packed", "scale"),
            rows=("x", "residual"),
        ),
    ),
    cases=cases.CASES,
    benchmarks=cases.BENCHMARKS,
    make=cases.make,
    bytes=cases.traffic,
    flops=cases.flops,
    flop_formula=flops_of_product,
    tolerances=cases.TOLERANCES,
    selfcheck=cases.selfcheck,
    eager={"default": cases.eager},
)
