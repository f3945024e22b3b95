# SPDX-License-Identifier: MIT
"""quantize_rows_fp8: what is refused, the definition in plain torch, cases, the check without torch."""

from __future__ import annotations

import ctypes
import math
import random
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops._tensors import require_dtype, settled

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.ops._selfcheck import Place

NAME = "quantize_rows_fp8"
FLOATS = ("float32", "float16", "bfloat16", "float64")
LARGEST = 448.0
_TINY = 2.0**-126


@cache
def dtypes() -> tuple[Any, ...]:
    import torch

    return tuple(getattr(torch, name) for name in FLOATS)


def check(x: Tensor) -> None:
    if not x.shape:
        raise InvalidArgument(f"{NAME}: x has shape (), but must have at least one dimension")
    require_dtype(NAME, "x", x, dtypes())


def quantize(x: Tensor) -> tuple[Tensor, Tensor]:
    """In float32, whatever x is."""
    import torch

    wide = x.float()
    absmax = wide.abs().amax(-1) if x.shape[-1] else wide.new_zeros(x.shape[:-1])
    scale = absmax / absmax.new_full((), LARGEST)  # by a number of Python, torch on a GPU multiplies with 1 / LARGEST
    scale = torch.where(scale < _TINY, 1.0, scale)
    return settled(wide / scale.unsqueeze(-1), torch.float8_e4m3fn), settled(scale, torch.float32)


# --- cases ------------------------------------------------------------------------

EXACT = {name: Tolerance(0.0, 0.0) for name in (*FLOATS, "float8_e4m3fn")}
_DTYPES = FLOATS[:3]
_COLS = (1, 2, 3, 7, 8, 15, 16, 31, 33, 64, 100, 127, 128, 129, 256, 257, 511, 1000, 1024, 2048, 2560, 4099, 5120)
_SHAPES = (
    *((3, cols) for cols in _COLS), (64,), (0, 64), (4, 0), (2, 0, 16), (2, 3, 40), (2, 1, 3, 1, 24), (1, 8193),
    (2, 16384), (1, 40000), (1, 70000), (300, 96), (600, 520), (9, 1032), (300, 2056), (280, 4111),
)  # fmt: skip
CASES = tuple(Case("default", shape, dtype) for shape in _SHAPES for dtype in _DTYPES)
BENCHMARKS = (
    *(Case("default", (8192, 8192), dtype) for dtype in ("bfloat16", "float16", "float32")),
    *(Case("default", shape, "bfloat16") for shape in ((1, 8192), (16, 8192), (2048, 4096), (4096, 4096))),
)


def traffic(case: Case) -> int:
    *rows, cols = case.shape
    count = math.prod(rows)
    return count * cols * (SIZES[case.dtype] + 1) + count * 4


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    """Rows of many sizes; float16 has not all of them."""
    import torch

    x = torch.randn(case.shape, generator=generator, device=device)
    powers = torch.randint(-12, 6, (*case.shape[:-1], 1), generator=generator, device=device)
    return ((x * 2.0**powers).to(getattr(torch, case.dtype)),)


# --- the check of the C function without torch ------------------------------------

_ROWS, _WIDE, _STRIDE = 3, 37, 40


def number(code: int) -> float:
    """What a byte stands for."""
    exponent, mantissa = code >> 3 & 15, code & 7
    size = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -size if code & 128 else size


def _nearest(value: float) -> float:
    """The number of e4m3 that is nearest, of two the one with an even code."""
    code = min(range(0x7F), key=lambda c: (abs(number(c) - abs(value)), c % 2))
    return math.copysign(number(code), value)


def _once(place: Place, dtype: str) -> float:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    values = rounded(dtype, [draw.gauss(0, 1) for _ in range(_ROWS * _STRIDE)])
    codes, scale = ctypes.create_string_buffer(_ROWS * _STRIDE), pack("float32", [7.0] * _ROWS)
    place.call(
        "kw_quantize_rows_fp8", place.device, None, codes, _STRIDE, scale, pack(dtype, values), _STRIDE, _ROWS, _WIDE,
        place.constants[f"KW_{dtype.upper()}"],
    )  # fmt: skip
    scales = unpack("float32", scale)
    expected, largest = [], []
    for row in range(_ROWS):
        of_row = values[row * _STRIDE : row * _STRIDE + _WIDE]
        largest += rounded("float32", [max(map(abs, of_row)) / LARGEST])
        quotients = rounded("float32", [value / scales[row] for value in of_row])
        expected += [*map(_nearest, quotients), *[0.0] * (_STRIDE - _WIDE)]
    return max(
        compare(f"{NAME}, {dtype}, codes", [number(code) for code in codes.raw], expected, 0, 1e-30),
        compare(f"{NAME}, {dtype}, scale", scales, largest, 0, 1e-30),
    )


def selfcheck(place: Place) -> str:
    worst = max(_once(place, dtype) for dtype in _DTYPES)
    return f"three types, {100 * worst:.0f} % of the error allowed"
