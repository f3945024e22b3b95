# SPDX-License-Identifier: MIT
"""Products of rows of 8-bit integers with a ternary weight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._rules import flops_of_product
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, require_dtype, rows, settled
from kernelwright.ops.ternary import _cases as cases
from kernelwright.ops.ternary import _codes as codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME = "matmul_ternary"
_RESULTS = (*codes.FLOATS, "int32")


def matmul_ternary(
    x: Tensor,
    packed: Tensor,
    absmax: Tensor | None = None,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    n: int,
    dtype: Any = None,
) -> Tensor:
    """`(x @ weight.T) * (absmax / 127) * scale + bias`; sums are exact, in int32, and results are rounded once.

    x       int8, [..., k], on the CPU or a GPU: the codes of quantize_rows_int8
    packed  the weight's codes, of quantize_ternary or pack_ternary
    absmax  float32, one for each row of x (what 127 stands for), or None: 127
    scale   float32, what 1 stands for in the weight: one for all, or one for each of its rows; None: 1
    bias    [n], of `dtype`, or None
    n       the weight's rows
    dtype   of the result: bfloat16 (the default), float16, float32, float64; int32 for the sums themselves, which go
            without absmax, scale and bias

    Returns [..., n]. Not differentiable; kernelwright.nn.BitLinear is.

    >>> q, absmax = kernelwright.quantize_rows_int8(x, clamp=1e-5)
    >>> y = kernelwright.matmul_ternary(q, packed, absmax, scale, n=n)
    """
    import torch

    found: Tensor = calls.matmul_ternary.default(x, packed, absmax, scale, bias, n, dtype or torch.bfloat16)
    return found


def check_bias(name: str, bias: Tensor | None, n: int, dtype: Any, x: Tensor) -> None:
    if bias is None:
        return
    require_dtype(name, "bias", bias, (dtype,))
    codes.check_place(name, "bias", bias, x)
    if bias.shape != (n,):
        raise InvalidArgument(f"{name}: bias has shape {tuple(bias.shape)}, but must have ({n},)")


def _check(
    x: Tensor, packed: Tensor, absmax: Tensor | None, scale: Tensor | None, bias: Tensor | None, n: int, dtype: Any
) -> None:
    import torch

    if not x.shape:
        raise InvalidArgument(f"{_NAME}: x has shape (), but must have at least one dimension")
    require_dtype(_NAME, "x", x, (torch.int8,))
    if dtype not in (allowed := codes.dtypes(_RESULTS)):
        raise InvalidArgument(f"{_NAME}: dtype is {dtype}, but must be {' or '.join([str(kind) for kind in allowed])}")
    codes.check_packed(_NAME, packed, n, x.shape[-1], x)
    if dtype == torch.int32 and not (absmax is None and scale is None and bias is None):
        raise InvalidArgument(f"{_NAME}: dtype is torch.int32, the sums themselves, but there is absmax, scale or bias")
    if absmax is not None:
        require_dtype(_NAME, "absmax", absmax, (torch.float32,))
        codes.check_place(_NAME, "absmax", absmax, x)
        if absmax.numel() != math.prod(x.shape[:-1]):
            raise InvalidArgument(
                f"{_NAME}: absmax has shape {tuple(absmax.shape)}, but must have an element for each row of x, which "
                f"has shape {tuple(x.shape)}"
            )
    if scale is not None:
        codes.check_scale(_NAME, scale, n, x)
    check_bias(_NAME, bias, n, dtype, x)


def _fake(
    x: Tensor, packed: Tensor, absmax: Tensor | None, scale: Tensor | None, bias: Tensor | None, n: int, dtype: Any
) -> Tensor:
    _check(x, packed, absmax, scale, bias, n, dtype)
    return x.new_empty((*x.shape[:-1], n), dtype=dtype)


def _reference(
    x: Tensor, packed: Tensor, absmax: Tensor | None, scale: Tensor | None, bias: Tensor | None, n: int, dtype: Any
) -> Tensor:
    import torch

    weight = codes.unpack(packed, n, x.shape[-1])
    sums = torch.matmul(x.double(), weight.double().t())
    if dtype == torch.int32:
        return settled(sums, dtype)
    exact = x.dtype == torch.float64  # as tests give it: then nothing is rounded
    wide = torch.float64 if exact or dtype == torch.float64 else torch.float32
    found = sums.to(wide)
    if absmax is not None:
        found = found * (absmax.to(wide) / 127).reshape(x.shape[:-1]).unsqueeze(-1)
    if scale is not None:
        found = found * scale.to(wide).reshape(-1)
    return settled(found if bias is None else found + bias.to(wide), wide if exact else dtype)


def _terms(x: Tensor, packed: Tensor, absmax: Any, scale: Any, bias: Any, n: int, dtype: Any) -> tuple[Tensor]:
    """A result is a product and a bias, which may nearly cancel each other."""
    import torch

    wide = _reference(x, packed, absmax, scale, None, n, torch.int32 if dtype == torch.int32 else torch.float64)
    return (wide.abs().double() + (0.0 if bias is None else bias.abs().double()),)


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    numbers = dtype_codes(library, (*codes.FLOATS[:3], "int32"))
    place, call = placement(library, key), library.functions["kw_call"]
    pack, function = library.packer("kw_matmul_ternary")

    def run(x: Tensor, packed: Tensor, absmax: Any, scale: Any, bias: Any, n: int, dtype: Any) -> Tensor:
        y = _fake(x, packed, absmax, scale, bias, n, dtype)
        refuse_freed(_NAME, x=x, packed=packed, absmax=absmax, scale=scale, bias=bias)
        if dtype not in numbers:
            return _reference(x, packed, absmax, scale, bias, n, dtype)
        if not y.numel():
            return y
        (x, stride), k = rows(x), x.shape[-1]
        packed = codes.aligned(packed)
        absmax, scale, bias = (None if each is None else each.contiguous() for each in (absmax, scale, bias))
        at = [0 if each is None else each.data_ptr() for each in (absmax, scale)]
        device, stream = place(x)
        status = call(
            pack(
                function, device, stream, y.data_ptr(), n, x.data_ptr(), stride, packed.data_ptr(), *at,
                1 if scale is None else scale.numel(), 0 if bias is None else bias.data_ptr(), y.numel() // n, n, k,
                numbers[dtype],
            )
        )  # fmt: skip
        if status:
            library.fail("kw_matmul_ternary", status)
        return y

    return run


OP = Op(
    name=_NAME,
    doc="rows of 8-bit integers times a ternary weight, exact, with scales and bias",
    function=matmul_ternary,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor packed, Tensor? absmax, Tensor? scale, Tensor? bias, int n, ScalarType dtype) "
            "-> Tensor",
            bind=_bind,
            fake=_fake,
            reference=_reference,
            terms=_terms,
            fixed=("x", "packed", "absmax", "scale", "bias"),
            rows=("x", "absmax"),
        ),
    ),
    cases=cases.PRODUCT_CASES,
    benchmarks=cases.PRODUCT_BENCHMARKS,
    make=cases.make_product,
    bytes=cases.traffic,
    flops=cases.flops,
    flop_formula=flops_of_product,
    tolerances=cases.TOLERANCES,
    selfcheck=cases.selfcheck_product,
    eager={"default": cases.eager},
)
