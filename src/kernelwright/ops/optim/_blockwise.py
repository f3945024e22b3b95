# SPDX-License-Identifier: MIT
"""What the block-wise operators share: what is refused, the definition in plain torch, cases, checks without torch."""

from __future__ import annotations

import bisect
import ctypes
import itertools
import math
import random
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops._tensors import require_dtype, settled
from kernelwright.ops.optim import _maps as maps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from kernelwright.ops._selfcheck import Place

BLOCKSIZES = tuple(32 << i for i in range(8))
FLOATS = ("float32", "float16", "bfloat16", "float64")
MAP = 256
_TINY = 2.0**-126  # below, a GPU's products are 0
_ULPS = 2.0**-22  # of a bound between codes: so near, the rounding of a reciprocal decides, and a GPU's is not a CPU's


def blocks(count: Any, blocksize: int) -> Any:
    return (count + blocksize - 1) // blocksize


# --- what is refused ------------------------------------------------------------


@cache
def dtypes(names: tuple[str, ...]) -> tuple[Any, ...]:
    import torch

    return tuple(getattr(torch, name) for name in names)


def check_blocksize(op: str, blocksize: int) -> None:
    if blocksize not in BLOCKSIZES:
        raise InvalidArgument(f"{op}: blocksize is {blocksize}, but must be one of {', '.join(map(str, BLOCKSIZES))}")


def check_held(
    op: str, name: str, tensor: Tensor, dtype: str, count: Any, because: Callable[[], str], like: Tensor
) -> None:
    """Of this type, on the device of `like` (the operator's first tensor), `count` elements in any shape."""
    require_dtype(op, name, tensor, dtypes((dtype,)))
    if tensor.device != like.device:
        raise InvalidArgument(
            f"{op}: {name} is on {tensor.device}, but the first tensor is on {like.device}; move one of them (.to())"
        )
    if tensor.numel() != count:
        raise InvalidArgument(f"{op}: {name} has {tensor.numel()} elements, but must have {count}: {because()}")


def check_map(op: str, tensor: Tensor, like: Tensor) -> None:
    check_held(op, "map", tensor, "float32", MAP, lambda: "a value for each code", like)


# --- in plain torch; codes, scales and maps may be held in float64, which has them exactly ----------------------


def in_blocks(values: Tensor, blocksize: int) -> Tensor:
    """Rows of one block each; the last is filled up with zeros."""
    import torch

    flat = values.reshape(-1).float()
    return torch.nn.functional.pad(flat, (0, -flat.numel() % blocksize)).view(-1, blocksize)


def _scaled(x: Tensor, blocksize: int) -> tuple[Tensor, Tensor]:
    """Each block's scale, 0 for a subnormal one, and its elements times the reciprocal of that."""
    import torch

    rows = in_blocks(x, blocksize)
    absmax = rows.abs().amax(1) if rows.numel() else rows.new_empty(0)
    absmax = torch.where(absmax < _TINY, 0.0, absmax)
    scaled = rows * torch.where(absmax == 0, math.nan, 1.0 / absmax).unsqueeze(1)
    return absmax, torch.where(scaled.abs() < _TINY, 0.0, scaled)


def codes_of(scaled: Tensor, table: Tensor) -> Tensor:
    """The nearest entry, of two as near the even one; 0 for NaN. Entries that are alike have nothing between them."""
    import torch

    middles = (table[:-1] + table[1:]) * 0.5
    place = torch.bucketize(scaled, middles)
    tie = scaled == torch.nn.functional.pad(middles, (0, 1), value=torch.inf)[place]
    apart = torch.nn.functional.pad(table[:-1] != table[1:], (0, 1))[place]
    return torch.where(scaled.isnan(), 0, place + (tie & apart & (place % 2 == 1)))


def quantize(x: Tensor, map: Tensor, blocksize: int) -> tuple[Tensor, Tensor]:  # noqa: A002 - the schema's
    import torch

    absmax, scaled = _scaled(x, blocksize)
    codes = codes_of(scaled.view(-1)[: x.numel()], map.reshape(-1).float())
    return settled(codes.view(x.shape), torch.uint8), absmax


def dequantize(codes: Tensor, absmax: Tensor, map: Tensor, blocksize: int, dtype: Any) -> Tensor:  # noqa: A002
    """In float32, then rounded; where `dtype` is float64 the products are exact."""
    import torch

    wide = torch.float64 if dtype == torch.float64 else torch.float32
    values = map.reshape(-1).to(wide)[codes.reshape(-1).long()]
    each = absmax.reshape(-1).to(wide).repeat_interleave(blocksize)[: codes.numel()]
    return settled((values * each).view(codes.shape), dtype)


def terms_of_quantize(x: Tensor, map: Tensor, blocksize: int) -> tuple[Tensor, Tensor]:  # noqa: A002
    """A code may be any other where the rounding of a reciprocal decides, nothing can be scaled, or the map is not in
    order."""
    absmax, scaled = _scaled(x, blocksize)
    table = map.reshape(-1).float()
    near = scaled.isnan() | ~((absmax >= _TINY) & (absmax <= 1 / _TINY)).unsqueeze(1)
    near = near | ~(table[:-1] <= table[1:]).all()
    for bound in ((table[:-1] + table[1:]) * 0.5).tolist():
        near = near | ((scaled - bound).abs() <= _ULPS * abs(bound))
    return (255.0 * near.view(-1)[: x.numel()]).view(x.shape), absmax.new_zeros(absmax.shape)


# --- cases ------------------------------------------------------------------------

# Bit for bit; what the rounding of a reciprocal may decide is said by Overload.terms.
EXACT = {name: Tolerance(0.0, 0.0, 1.0) for name in (*FLOATS, "uint8")}
_DTYPES = FLOATS[:3]
_COLS = (1, 2, 3, 5, 7, 8, 15, 31, 32, 33, 64, 65, 100, 127, 128, 129, 257, 511, 1000, 1024, 4096, 4099)
_SHAPES = (
    *((3, cols) for cols in _COLS), (64,), (0, 64), (4, 0), (2, 0, 16), (2, 3, 40), (2, 1, 3, 1, 24), (1, 8193),
    (2, 16384), (257, 96), (5, 4111), *[(1, 4101)] * 8, *[(1, 16389)] * 8,
)  # fmt: skip
MAPS: dict[str, Callable[[], Any]] = {
    "dynamic": maps.create_dynamic_map,
    "udynamic": lambda: maps.create_dynamic_map(signed=False),
    "linear": maps.create_linear_map,
    "fp8": maps.create_fp8_map,
    "four bits": lambda: maps.create_dynamic_map(max_exponent_bits=3, total_bits=4),
}


def _cases() -> tuple[Case, ...]:
    found = {}
    for number, shape in enumerate(_SHAPES):
        for place, dtype in enumerate(_DTYPES):
            each = number + 3 * place
            kind = list(MAPS)[each // 2 % len(MAPS)] if each % 2 else "dynamic"
            case = Case("default", shape, dtype, {"blocksize": BLOCKSIZES[each % len(BLOCKSIZES)], "map": kind})
            found[str(case)] = case
    return tuple(found.values())


CASES = _cases()
BENCHMARKS = tuple(
    Case("default", shape, dtype, {"blocksize": blocksize, "map": "dynamic"})
    for shape, dtype, blocksize in (
        ((1 << 28,), "bfloat16", 256), ((1 << 28,), "bfloat16", 4096), ((1 << 28,), "float16", 256),
        ((1 << 28,), "float32", 256), ((4096, 4096), "bfloat16", 256), ((4096, 4096), "bfloat16", 4096),
    )
)  # fmt: skip


def traffic(case: Case) -> int:
    count = math.prod(case.shape)
    return count * (SIZES[case.dtype] + 1) + 4 * blocks(count, case.options["blocksize"]) + 4 * MAP


def make_quantize(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    x = torch.randn(case.shape, generator=generator, device=device)
    # Some far smaller: the finest values of a map are for those.
    small = torch.rand(case.shape, generator=generator, device=device) ** 8
    return (x * small).to(getattr(torch, case.dtype)), MAPS[case.options["map"]]().to(device), case.options["blocksize"]


def make_dequantize(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    count, blocksize = math.prod(case.shape), case.options["blocksize"]
    codes = torch.randint(0, 256, case.shape, generator=generator, device=device, dtype=torch.uint8)
    absmax = 0.1 + torch.rand((blocks(count, blocksize),), generator=generator, device=device)
    return codes, absmax, MAPS[case.options["map"]]().to(device), blocksize, getattr(torch, case.dtype)


# --- the checks of the C functions without torch ------------------------------------

_BLOCK, _COUNT = 32, 150
_VALUES = [math.copysign((i / 128) ** 4, i) for i in range(-127, 129)]  # of a map: finer near 0


def _single(value: float) -> float:
    return rounded("float32", [value])[0]


def _expected(values: Sequence[float], table: Sequence[float]) -> tuple[list[int], list[float], list[float]]:
    """Codes, scales, and the values with 0 for what lies so near a bound that a reciprocal's rounding decides."""
    bounds = [(a + b) / 2 for a, b in itertools.pairwise(table)]
    codes, scales, decided = [], [], []
    for first in range(0, len(values), _BLOCK):
        block = values[first : first + _BLOCK]
        scales.append(max(abs(v) for v in block))
        for value in block:
            scaled = value / scales[-1]
            near = (
                bounds[min(bisect.bisect(bounds, scaled), len(bounds) - 1)],
                bounds[bisect.bisect(bounds, scaled) - 1],
            )
            decided.append(0.0 if any(abs(scaled - b) <= 2.0**-20 * abs(b) for b in near) else value)
            codes.append(bisect.bisect_left(bounds, decided[-1] / scales[-1]))
    return codes, scales, decided


def _each(check: Callable[[Place, str], float], place: Place) -> str:
    worst = max(check(place, dtype) for dtype in _DTYPES)
    return f"three types, {100 * worst:.0f} % of the error allowed"


def _drawn(dtype: str) -> tuple[list[int], list[float], list[float], list[float]]:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    table = rounded("float32", _VALUES)
    return (*_expected(rounded(dtype, [draw.gauss(0, 1) for _ in range(_COUNT)]), table), table)


def _check_quantize(place: Place, dtype: str) -> float:
    expected, scales, values, table = _drawn(dtype)
    codes, absmax = ctypes.create_string_buffer(_COUNT), pack("float32", [7.0] * len(scales))
    rest = _COUNT, _BLOCK, place.constants[f"KW_{dtype.upper()}"]
    given = pack(dtype, values), pack("float32", table)
    place.call("kw_quantize_blockwise", place.device, None, codes, absmax, *given, *rest)
    return max(
        compare(f"quantize_blockwise, {dtype}, codes", [float(c) for c in codes.raw], expected, 0, 1e-30),
        compare(f"quantize_blockwise, {dtype}, absmax", unpack("float32", absmax), scales, 0, 1e-30),
    )


def _check_dequantize(place: Place, dtype: str) -> float:
    codes, scales, _, table = _drawn(dtype)
    y, rest = pack(dtype, [7.0] * _COUNT), (_COUNT, _BLOCK, place.constants[f"KW_{dtype.upper()}"])
    given = ctypes.create_string_buffer(bytes(codes), _COUNT), pack("float32", scales), pack("float32", table)
    place.call("kw_dequantize_blockwise", place.device, None, y, *given, *rest)
    cells = [_single(table[code] * scales[i // _BLOCK]) for i, code in enumerate(codes)]
    return compare(f"dequantize_blockwise, {dtype}", unpack(dtype, y), rounded(dtype, cells), 0, 1e-30)


def selfcheck_quantize(place: Place) -> str:
    return _each(_check_quantize, place)


def selfcheck_dequantize(place: Place) -> str:
    return _each(_check_dequantize, place)
