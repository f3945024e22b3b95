# SPDX-License-Identifier: MIT
"""The checks of the 4-bit operators' C functions without torch, against plain Python. Codes and what they stand for
must be exact; a product may be off by what sums in float32 lose."""

from __future__ import annotations

import ctypes
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._selfcheck import compare, pack, rounded, unpack, workspace
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kernelwright.ops._selfcheck import Place

_DTYPES = ("float32", "float16", "bfloat16")
_BLOCK = 32
_EXACT = 1e-30  # what may be missing where nothing may
_NEAR = 2.0**-21  # of a bound between codes: so near, the rounding of a reciprocal decides, and a GPU's is not a CPU's


def _draw(count: int) -> list[float]:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    return [draw.gauss(0, 1) for _ in range(count)]


def _numbers(place: Place, quant_type: str, dtype: str) -> tuple[int, int, int]:
    return _BLOCK, place.constants[f"KW_{quant_type.upper()}"], place.constants[f"KW_{dtype.upper()}"]


def _single(value: float) -> float:
    return rounded("float32", [value])[0]


def _code(scaled: float, quant_type: str) -> int:
    bounds = four_bit.BOUNDS[quant_type]
    if quant_type == "nf4":
        return sum(scaled > bound for bound in bounds)
    return four_bit.FP4_CODES[sum(abs(scaled) > bound for bound in bounds)] + 8 * (scaled < 0)


def _codes(values: Sequence[float], quant_type: str) -> tuple[list[int], list[float]]:
    """The codes of float32 values, and the scales of their blocks."""
    codes, scales = [], []
    for first in range(0, len(values), _BLOCK):
        block = values[first : first + _BLOCK]
        scales.append(max(abs(v) for v in block))
        factor = _single(1 / scales[-1])
        codes += [_code(_single(v * factor), quant_type) for v in block]
    return codes, scales


def decided(values: Sequence[float], quant_type: str) -> list[float]:
    """The values with 0 for those that lie on a bound between two codes."""
    decided: list[float] = []
    for first in range(0, len(values), _BLOCK):
        block = values[first : first + _BLOCK]
        scale = max(abs(v) for v in block)
        bounds = [bound * scale for bound in four_bit.BOUNDS[quant_type]]
        size = float if quant_type == "nf4" else abs  # FP4's bounds have no sign
        decided += [0.0 if any(abs(size(v) - b) <= _NEAR * abs(b) for b in bounds) else v for v in block]
    return decided


def _packed(codes: Sequence[int]) -> list[float]:
    return [float(16 * a + b) for a, b in zip(codes[::2], codes[1::2], strict=True)]


def _bytes(values: Iterable[float]) -> Any:
    raw = bytes(int(v) for v in values)
    return ctypes.create_string_buffer(raw, len(raw))


def _cells(quant_type: str, codes: Sequence[int], scales: Sequence[float]) -> list[float]:
    values = rounded("float32", four_bit.VALUES[quant_type])
    return [_single(values[code] * scales[i // _BLOCK]) for i, code in enumerate(codes)]


def _said(worst: float) -> str:
    return f"NF4 and FP4 in three types, {100 * worst:.0f} % of the error allowed"


def _each(place: Place, check: Any) -> str:
    return _said(max(check(place, kind, dtype) for kind in four_bit.VALUES for dtype in _DTYPES))


def _quantize(place: Place, quant_type: str, dtype: str) -> float:
    values = decided(rounded(dtype, _draw(150)), quant_type)
    codes, scales = _codes(values, quant_type)
    packed, absmax = ctypes.create_string_buffer(75), pack("float32", [7.0] * len(scales))
    place.call(
        "kw_quantize_4bit", place.device, None, packed, absmax, pack(dtype, values), len(values),
        *_numbers(place, quant_type, dtype),
    )  # fmt: skip
    what = f"quantize_4bit, {quant_type}, {dtype}"
    return max(
        compare(f"{what}, packed", [float(b) for b in packed.raw], _packed(codes), 0, _EXACT),
        compare(f"{what}, absmax", unpack("float32", absmax), scales, 0, _EXACT),
    )


def quantize(place: Place) -> str:
    return _each(place, _quantize)


def _weight(quant_type: str, count: int) -> tuple[Any, Any, list[float]]:
    """Packed, its scales, and what they stand for."""
    codes, scales = _codes(rounded("float32", _draw(count)), quant_type)
    return _bytes(_packed(codes)), pack("float32", scales), _cells(quant_type, codes, scales)


def _dequantize(place: Place, quant_type: str, dtype: str) -> float:
    packed, absmax, cells = _weight(quant_type, 150)
    y = pack(dtype, [7.0] * len(cells))
    place.call(
        "kw_dequantize_4bit", place.device, None, y, packed, absmax, None, None, None, None,
        len(cells), *_numbers(place, quant_type, dtype),
    )  # fmt: skip
    return compare(f"dequantize_4bit, {quant_type}, {dtype}", unpack(dtype, y), rounded(dtype, cells), 0, _EXACT)


def dequantize(place: Place) -> str:
    return _each(place, _dequantize)


def _matmul(place: Place, quant_type: str, dtype: str) -> float:
    m, n, k = 3, 14, 37
    packed, absmax, cells = _weight(quant_type, n * k)
    x, bias = rounded(dtype, _draw(m * k)), rounded(dtype, _draw(n))
    expected, sizes = [], []
    for row, column in ((row, column) for row in range(m) for column in range(n)):
        terms = [x[row * k + i] * cells[column * k + i] for i in range(k)]
        expected.append(sum(terms) + bias[column])
        sizes.append(sum(map(abs, terms)))
    y, size = pack(dtype, [7.0] * len(expected)), ctypes.c_int64()
    kind = _numbers(place, quant_type, dtype)
    place.call("kw_matmul_4bit_workspace", place.device, m, n, k, kind[0], kind[2], ctypes.byref(size))
    place.call(
        "kw_matmul_4bit", place.device, None, y, n, pack(dtype, x), k, packed, absmax, None, None, None, None,
        pack(dtype, bias), workspace(size.value), size.value, m, n, k, *kind,
    )  # fmt: skip
    relative = {"float32": 1e-6, "float16": 2.0**-11 * 1.02, "bfloat16": 2.0**-8 * 1.01}[dtype]
    what = f"matmul_4bit, {quant_type}, {dtype}"
    return compare(what, unpack(dtype, y), expected, relative, 1e-7 + 2e-6 * max(sizes))


def matmul(place: Place) -> str:
    return _each(place, _matmul)


def _grouped(place: Place, quant_type: str, dtype: str) -> float:
    """Two experts, of which the first has one row of three, and the last row is no expert's."""
    m, n, k, ends = 3, 8, 36, (1, 2)
    packed, absmax, cells = _weight(quant_type, len(ends) * n * k)
    x = rounded(dtype, _draw(m * k))
    expected, sizes = [], []
    for row, column in ((row, column) for row in range(m) for column in range(n)):
        weight = cells[(row * n + column) * k :][:k] if row < len(ends) else [0.0] * k
        terms = [x[row * k + i] * weight[i] for i in range(k)]
        expected.append(sum(terms))
        sizes.append(sum(map(abs, terms)))
    y, size, kind = pack(dtype, [7.0] * len(expected)), ctypes.c_int64(), _numbers(place, quant_type, dtype)
    place.call("kw_matmul_4bit_workspace", place.device, m, n, k, kind[0], kind[2], ctypes.byref(size))
    place.call(
        "kw_matmul_4bit_grouped", place.device, None, y, n, pack(dtype, x), k, packed, absmax, None, None, None, None,
        (ctypes.c_int32 * len(ends))(*ends), workspace(size.value), size.value, m, len(ends), n, k, *kind,
    )  # fmt: skip
    relative = {"float32": 1e-6, "float16": 2.0**-11 * 1.02, "bfloat16": 2.0**-8 * 1.01}[dtype]
    what = f"matmul_4bit_grouped, {quant_type}, {dtype}"
    return compare(what, unpack(dtype, y), expected, relative, 1e-7 + 2e-6 * max(sizes))


def grouped(place: Place) -> str:
    return _each(place, _grouped)
