# SPDX-License-Identifier: MIT
"""What products of 8-bit rows have in common, of integers and of floats: what is refused, scales, the call in C."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._record import SIZES
from kernelwright.ops._tensors import dtype_codes, require_dtype, require_like

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library
    from kernelwright.ops._record import Case

FLOATS = ("float32", "float16", "bfloat16")


@cache
def dtypes(*names: str) -> tuple[Any, ...]:
    import torch

    return tuple(getattr(torch, name) for name in names)


def check_codes(name: str, x: Tensor, weight: Tensor, dtype: str) -> None:
    if not x.shape:
        raise InvalidArgument(f"{name}: x has shape (), but must have at least one dimension")
    require_dtype(name, "x", x, dtypes(dtype))
    require_dtype(name, "weight", weight, dtypes(dtype))
    if weight.dim() != 2:
        raise InvalidArgument(f"{name}: weight has shape {tuple(weight.shape)}, but must have two dimensions, [n, k]")
    require_like(name, "weight", weight, "x", x, (weight.shape[0], x.shape[-1]))


def check_factors(
    name: str, x: Tensor, weight: Tensor, x_scale: Tensor | None, weight_scale: Tensor | None, bias: Tensor | None
) -> None:
    if x_scale is not None:
        require_dtype(name, "x_scale", x_scale, dtypes("float32"))
        require_like(name, "x_scale", x_scale, "x", x, x.shape[:-1])
    if weight_scale is not None:
        require_dtype(name, "weight_scale", weight_scale, dtypes("float32"))
        require_like(name, "weight_scale", weight_scale, "weight", weight, weight.shape[:1])
    if bias is not None:
        require_dtype(name, "bias", bias, dtypes(*FLOATS))
        require_like(name, "bias", bias, "weight", weight, weight.shape[:1])


def sums(x: Tensor, weight: Tensor) -> Tensor:
    """In float64, in which each of integers is exact; there is no product of 8 bits on every device."""
    import torch

    return torch.matmul(x.to(torch.float64), weight.to(torch.float64).t())


def scaled(value: Tensor, x_scale: Tensor | None, weight_scale: Tensor | None) -> Tensor:
    import torch

    if x_scale is not None:
        value = value * x_scale.to(torch.float64).unsqueeze(-1)
    return value if weight_scale is None else value * weight_scale.to(torch.float64)


def traffic(case: Case) -> int:
    *leading, k = case.shape
    m, n, options = math.prod(leading), case.options["n"], case.options
    scales = 4 * (m + n) if options["scaled"] else 0
    return m * k + n * k + m * n * SIZES.get(case.dtype, 4) + scales + n * SIZES.get(options["bias"], 0)


def flops(case: Case) -> int:
    return 2 * math.prod(case.shape) * case.options["n"]


def caller(library: Library, function: str, extra: tuple[str, ...] = ()) -> Callable[..., Tensor]:
    """call(y, (device, stream), x and weight as `rows` gives them, (x_scale, weight_scale, bias)), and what else the C
    function takes, before and behind the types. `extra`: a type of results besides FLOATS.
    """
    import torch

    numbers, call = dtype_codes(library, (*FLOATS, *extra)), library.functions["kw_call"]
    pack, address = library.packer(function)
    of_float32 = numbers[torch.float32]

    def run(
        y: Tensor,
        at: tuple[int, int],
        x: tuple[Tensor, int],
        weight: tuple[Tensor, int],
        factors: tuple[Tensor | None, Tensor | None, Tensor | None],
        before: tuple[int, ...] = (),
        behind: tuple[float, ...] = (),
    ) -> Tensor:
        (left, left_stride), (right, right_stride) = x, weight
        small = [t if t is None else t.contiguous() for t in factors]
        (n, k), bias = right.shape, factors[2]
        status = call(
            pack(
                address, *at, y.data_ptr(), n, left.data_ptr(), left_stride, right.data_ptr(), right_stride,
                *(0 if t is None else t.data_ptr() for t in small), y.numel() // n, n, k, *before, numbers[y.dtype],
                of_float32 if bias is None else numbers[bias.dtype], *behind,
            )
        )  # fmt: skip
        if status:
            library.fail(function, status)
        return y

    return run
