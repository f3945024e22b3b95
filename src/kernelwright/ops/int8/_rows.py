# SPDX-License-Identifier: MIT
"""quantize_rows_int8: what is refused, the definition in plain torch, cases, the check without torch."""

from __future__ import annotations

import ctypes
import math
import random
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops._tensors import require_dtype, require_like, settled

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.ops._selfcheck import Place

NAME = "quantize_rows_int8"
FLOATS = ("float32", "float16", "bfloat16", "float64")
LARGEST = 3e38
_TINY = 2.0**-126
_TIE = 2.0**-13  # of a code: so near to a half the rounding of a reciprocal and of a norm's root decides


# --- what is refused ------------------------------------------------------------


@cache
def dtypes() -> tuple[Any, ...]:
    import torch

    return tuple(getattr(torch, name) for name in FLOATS)


def _check_rows(x: Tensor, clamp: float, name: str = NAME) -> None:
    if not x.shape:
        raise InvalidArgument(f"{name}: x has shape (), but must have at least one dimension")
    require_dtype(name, "x", x, dtypes())
    if not 0.0 <= clamp <= LARGEST:
        raise InvalidArgument(f"{name}: clamp is {clamp}, but must be 0 or a positive float32")


def norms_eps(name: str, eps: float | None) -> float:
    """As schemas have it; what is no number is refused by torch, in its words."""
    if isinstance(eps, (int, float)) and not eps >= 0.0:
        raise InvalidArgument(f"{name}: eps is {eps}, but must not be negative (None: no norm)")
    return -1.0 if eps is None else eps


def check(x: Tensor, weight: Tensor | None, eps: float, clamp: float, name: str = NAME) -> None:
    """`eps` below 0 is no norm."""
    _check_rows(x, clamp, name)
    if not eps <= LARGEST:
        raise InvalidArgument(f"{name}: eps is {eps}, but must be a finite float32 (below 0: no norm)")
    if eps >= 0.0 and x.shape[-1] == 0:
        raise InvalidArgument(f"{name}: x has shape {tuple(x.shape)}; rows of no elements have no norm")
    if weight is not None:
        if eps < 0.0:
            raise InvalidArgument(f"{name}: weight is that of the norm, but eps is {eps}: no norm")
        require_dtype(name, "weight", weight, (x.dtype, dtypes()[0]))
        require_like(name, "weight", weight, "x", x, x.shape[-1:])


def check_outliers(x: Tensor, threshold: float, clamp: float) -> None:
    _check_rows(x, clamp)
    if not 0.0 < threshold <= LARGEST:
        raise InvalidArgument(f"{NAME}: threshold is {threshold}, but must be a positive float32")


# --- in plain torch ----------------------------------------------------------------


def _scaled(h: Tensor, clamp: float) -> tuple[Tensor, Tensor]:
    """Each row's absmax, and its elements as they are before they are rounded; 0 where nothing can be scaled."""
    import torch

    absmax = h.abs().amax(-1) if h.shape[-1] else h.new_zeros(h.shape[:-1])
    absmax = torch.where(absmax < clamp, clamp, absmax)
    usable = (absmax >= _TINY) & (absmax < math.inf)
    by = torch.where(usable, 127.0 * (1.0 / absmax), 0.0).unsqueeze(-1)
    return absmax, torch.where(usable.unsqueeze(-1), h * by, 0.0)


def _normed(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    import torch

    if eps < 0.0:
        return x.float()
    wide = x.to(torch.float64)
    wide = wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    return (wide if weight is None else wide * weight).float()


def quantize(x: Tensor, weight: Tensor | None, eps: float, clamp: float) -> tuple[Tensor, Tensor]:
    import torch

    absmax, scaled = _scaled(_normed(x, weight, eps), clamp)
    return settled(scaled.round(), torch.int8), settled(absmax, torch.float32)


def with_sums(x: Tensor, weight: Tensor | None, eps: float, clamp: float) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    codes, absmax = quantize(x, weight, eps, clamp)
    return codes, absmax, settled(codes.sum(-1, dtype=torch.int64), torch.int32)


def _cut(x: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    import torch

    large = x.float().abs() >= threshold
    columns = large.flatten(0, -2).any(0) if x.dim() > 1 else large
    return torch.where(large, 0.0, x.float()), columns


def without_outliers(x: Tensor, threshold: float, clamp: float) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    rest, columns = _cut(x, threshold)
    absmax, scaled = _scaled(rest, clamp)
    codes = torch.where(columns, 0.0, scaled.round())
    return settled(codes, torch.int8), settled(absmax, torch.float32), settled(columns, torch.uint8)


def _ties(scaled: Tensor) -> Tensor:
    """1 where a code may be one more or one less."""
    return (((scaled - scaled.floor()) - 0.5).abs() < _TIE).double()


def terms_of_quantize(x: Tensor, weight: Tensor | None, eps: float, clamp: float) -> tuple[Tensor, Tensor]:
    absmax, scaled = _scaled(_normed(x, weight, eps), clamp)
    return _ties(scaled), absmax.double() * (2.0**-21 if eps >= 0.0 else 0.0)


def terms_of_sums(x: Tensor, weight: Tensor | None, eps: float, clamp: float) -> tuple[Tensor, Tensor, Tensor]:
    ties, absmax = terms_of_quantize(x, weight, eps, clamp)
    return ties, absmax, ties.sum(-1)


def terms_of_outliers(x: Tensor, threshold: float, clamp: float) -> tuple[Tensor, Tensor, Tensor]:
    rest, columns = _cut(x, threshold)
    absmax, scaled = _scaled(rest, clamp)
    return _ties(scaled), absmax.double() * 0.0, columns.double() * 0.0


# --- cases ------------------------------------------------------------------------

# To the bit, but for what `terms` allow.
EXACT = {name: Tolerance(0.0, 0.0, 1.0) for name in (*FLOATS, "int8", "int32", "uint8")}
_DTYPES = FLOATS[:3]
_COLS = (1, 2, 3, 7, 8, 15, 16, 31, 33, 64, 100, 127, 128, 129, 256, 257, 511, 1000, 1024, 2048, 2560, 4099, 5120)
_SHAPES = (
    *((3, cols) for cols in _COLS), (64,), (0, 64), (4, 0), (2, 0, 16), (2, 3, 40), (2, 1, 3, 1, 24), (1, 8193),
    (2, 16384), (1, 40000), (1, 70000), (300, 96), (600, 520), (9, 1032), (300, 2056), (280, 4111),
)  # fmt: skip
_KINDS = ((None, -1.0), ("same", 1e-5), ("float32", 1e-6), (None, 1e-5), (None, -1.0))


def _case(overload: str, number: int, shape: tuple[int, ...], dtype: str) -> Case:
    clamp = (0.0, 1e-5, 2.0)[number % 3]
    if overload == "outliers":
        return Case(overload, shape, dtype, {"threshold": 6.0, "clamp": clamp})
    weight, eps = _KINDS[number % len(_KINDS)] if shape[-1] else _KINDS[0]
    return Case(overload, shape, dtype, {"weight": weight, "eps": eps, "clamp": clamp})


def _cases() -> tuple[Case, ...]:
    found = {}
    for number, shape in enumerate(_SHAPES):
        for place, dtype in enumerate(_DTYPES):
            for overload in ("default", "sums", "outliers"):
                case = _case(overload, number + place, shape, dtype)
                found[str(case)] = case
    return tuple(found.values())


CASES = _cases()
_PLAIN = {"weight": None, "eps": -1.0, "clamp": 0.0}
BENCHMARKS = (
    *(Case("default", (8192, 8192), dtype, _PLAIN) for dtype in ("float16", "bfloat16", "float32")),
    *(Case("default", (rows, cols), "float16", _PLAIN) for rows, cols in ((1, 8192), (16, 8192), (2048, 4096))),
    Case("outliers", (8192, 8192), "float16", {"threshold": 6.0, "clamp": 0.0}),
    Case("sums", (8192, 2560), "bfloat16", {"weight": "same", "eps": 1e-5, "clamp": 1e-5}),
    Case("sums", (1, 2560), "bfloat16", {"weight": "same", "eps": 1e-5, "clamp": 1e-5}),
)


def traffic(case: Case) -> int:
    *rows, cols = case.shape
    count = math.prod(rows)
    weight = case.options.get("weight")
    return (
        count * cols * (SIZES[case.dtype] + 1)
        + count * (8 if case.overload == "sums" else 4)
        + cols * (0 if weight is None else SIZES["float32" if weight == "float32" else case.dtype])
        + (cols if case.overload == "outliers" else 0)
    )


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    dtype, cols = getattr(torch, case.dtype), case.shape[-1]
    x = torch.randn(case.shape, generator=generator, device=device)
    options = case.options
    if case.overload == "outliers":
        large = torch.rand(cols, generator=generator, device=device) < 0.02  # columns, of which not all elements are
        return torch.where(large, 5 * x, x).to(dtype), options["threshold"], options["clamp"]
    weight = None
    if options["weight"]:
        weight = torch.rand(cols, generator=generator, device=device) + 0.5
        weight = weight if options["weight"] == "float32" else weight.to(dtype)
    return x.to(dtype), weight, options["eps"], options["clamp"]


# --- the check of the C function without torch ------------------------------------

_ROWS, _WIDE, _STRIDE = 3, 37, 40


def _expected(values: list[float]) -> tuple[list[float], list[float], list[float]]:
    codes, scales, sums = [], [], []
    for row in range(_ROWS):
        h = values[row * _STRIDE : row * _STRIDE + _WIDE]
        scales.append(max(map(abs, h)))
        row_codes = [float(round(v * 127 / scales[-1])) for v in h]
        codes += [*row_codes, *[7.0] * (_STRIDE - _WIDE)]
        sums.append(sum(row_codes))
    return codes, scales, sums


def _drawn(dtype: str) -> list[float]:
    """None so near to a half that the rounding of a reciprocal decides."""
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    while True:
        values = rounded(dtype, [draw.gauss(0, 1) for _ in range(_ROWS * _STRIDE)])
        near = 0
        for row in range(_ROWS):
            h = values[row * _STRIDE : row * _STRIDE + _WIDE]
            near += sum(abs(v * 127 / max(map(abs, h)) % 1 - 0.5) < _TIE for v in h)
        if not near:
            return values


def _once(place: Place, dtype: str) -> float:
    values, number = _drawn(dtype), place.constants[f"KW_{dtype.upper()}"]
    codes = ctypes.create_string_buffer(bytes([7] * (_ROWS * _STRIDE)), _ROWS * _STRIDE)
    absmax, sums = pack("float32", [7.0] * _ROWS), (ctypes.c_int32 * _ROWS)()
    place.call(
        "kw_quantize_rows_int8", place.device, None, codes, _STRIDE, absmax, sums, None, pack(dtype, values), _STRIDE,
        None, _ROWS, _WIDE, number, number, 0.0, 0.0, -1.0,
    )  # fmt: skip
    expected, scales, totals = _expected(values)
    found = [float(c - 256 if c > 127 else c) for c in codes.raw]
    return max(
        compare(f"{NAME}, {dtype}, codes", found, expected, 0, 1e-30),
        compare(f"{NAME}, {dtype}, absmax", unpack("float32", absmax), scales, 0, 1e-30),
        compare(f"{NAME}, {dtype}, sums", [float(s) for s in sums], totals, 0, 1e-30),
    )


def selfcheck(place: Place) -> str:
    worst = max(_once(place, dtype) for dtype in _DTYPES)
    return f"three types, {100 * worst:.0f} % of the error allowed"
