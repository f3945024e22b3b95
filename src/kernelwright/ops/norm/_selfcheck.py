# SPDX-License-Identifier: MIT
"""The normalisations' C functions without torch, against plain Python."""

from __future__ import annotations

import ctypes
import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._selfcheck import compare, pack, rounded, unpack, workspace
from kernelwright.ops.norm._cases import DTYPES, TOLERANCES

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._selfcheck import Place
    from kernelwright.ops.norm._shared import Norm

_ROWS, _WIDTH, _STRIDE, _EPS, _SENTINEL = 3, 37, 41, 1e-6, 7.0
_ABSOLUTE = 1e-5  # a derivative is a difference: its error is one of its terms', which are below 100 here
_STARTS = range(0, _ROWS * _STRIDE, _STRIDE)

Row = list[float]


def _standardise(norm: Norm, row: Row) -> tuple[Row, float]:
    mean = sum(row) / _WIDTH if norm.centered else 0.0
    rstd = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / _WIDTH + _EPS)
    return [(v - mean) * rstd for v in row], rstd


def _forward(norm: Norm, x: Row, residual: Row, parameters: list[Row]) -> tuple[Row, Row]:
    """y and h over padded rows; what lies between rows must stay the sentinel."""
    y, h = [_SENTINEL] * (_ROWS * _STRIDE), [_SENTINEL] * (_ROWS * _STRIDE)
    weight, bias = [*parameters, [0.0] * _WIDTH][:2]
    for start in _STARTS:
        row = [x[start + i] + residual[start + i] for i in range(_WIDTH)]
        unit, _ = _standardise(norm, row)
        y[start : start + _WIDTH] = [u * w + b for u, w, b in zip(unit, weight, bias, strict=True)]
        h[start : start + _WIDTH] = row
    return y, h


def _backward(norm: Norm, dy: Row, dsum: Row, h: Row, weight: Row) -> tuple[Row, Row, Row]:
    """The derivatives of h, over padded rows, of the weight and of the bias."""
    dx, dweight, dbias = [_SENTINEL] * (_ROWS * _STRIDE), [0.0] * _WIDTH, [0.0] * _WIDTH
    for start in _STARTS:
        unit, rstd = _standardise(norm, h[start : start + _WIDTH])
        g = [dy[start + i] * weight[i] for i in range(_WIDTH)]
        along = sum(a * b for a, b in zip(g, unit, strict=True)) / _WIDTH
        mean = sum(g) / _WIDTH if norm.centered else 0.0
        for i, u in enumerate(unit):
            dx[start + i] = dsum[start + i] + rstd * (g[i] - mean - u * along)
            dweight[i] += dy[start + i] * u
            dbias[i] += dy[start + i]
    return dx, dweight, dbias


class _Check:
    """One run with one element type on fresh numbers."""

    def __init__(self, norm: Norm, place: Place, dtype: str, draw: random.Random) -> None:
        self.norm, self.place, self.dtype, self.draw = norm, place, dtype, draw
        self.code = place.constants[f"KW_{dtype.upper()}"]

    def numbers(self, count: int, mean: float = 0.0) -> Row:
        return rounded(self.dtype, [self.draw.gauss(mean, 1) for _ in range(count)])

    def buffer(self, count: int) -> Any:
        return pack(self.dtype, [_SENTINEL] * count)

    def worst(self, what: tuple[str, ...], buffers: list[Any], expected: tuple[Row, ...], absolute: float) -> float:
        relative = TOLERANCES[self.dtype].relative
        return max(
            compare(f"{self.norm.name}, {self.dtype}, {name}", unpack(self.dtype, buffer), values, relative, absolute)
            for name, buffer, values in zip(what, buffers, expected, strict=True)
        )

    def forward(self) -> float:
        x, residual = (self.numbers(_ROWS * _STRIDE) for _ in range(2))
        parameters = [self.numbers(_WIDTH, 1.0) for _ in self.norm.parameters]
        found = [self.buffer(_ROWS * _STRIDE) for _ in range(2)]
        inputs = [pack(self.dtype, values) for values in (x, residual, *parameters)]
        # fmt: off
        self.place.call(
            f"kw_{self.norm.name}", self.place.device, None, found[0], _STRIDE, found[1], _STRIDE,
            inputs[0], _STRIDE, inputs[1], _STRIDE, *inputs[2:], *[None] * (1 + self.norm.centered),
            _ROWS, _WIDTH, self.code, self.code, _EPS,
        )
        # fmt: on
        absolute = _ABSOLUTE if self.norm.centered else TOLERANCES[self.dtype].absolute
        return self.worst(("y", "sum"), found, _forward(self.norm, x, residual, parameters), absolute)

    def backward(self) -> float:
        dy, dsum, h = (self.numbers(_ROWS * _STRIDE) for _ in range(3))
        weight = self.numbers(_WIDTH, 1.0)
        found = [self.buffer(_ROWS * _STRIDE), *(self.buffer(_WIDTH) for _ in self.norm.parameters)]
        inputs = [pack(self.dtype, values) for values in (dy, dsum, h, weight)]
        device, size = self.place.device, ctypes.c_int64()
        function = f"kw_{self.norm.name}_backward"
        self.place.call(f"{function}_workspace", device, _ROWS, _WIDTH, ctypes.byref(size))
        # fmt: off
        self.place.call(
            function, device, None, found[0], _STRIDE, *found[1:], inputs[0], _STRIDE, inputs[1], _STRIDE,
            inputs[2], _STRIDE, inputs[3], *[None] * (1 + self.norm.centered), workspace(size.value), size.value,
            _ROWS, _WIDTH, self.code, self.code, _EPS,
        )
        # fmt: on
        names = ("dx", *(f"d{name}" for name in self.norm.parameters))
        expected = _backward(self.norm, dy, dsum, h, weight)[: len(names)]
        return self.worst(names, found, expected, _ABSOLUTE)


def selfcheck_of(norm: Norm) -> Callable[[Place], str]:
    def selfcheck(place: Place) -> str:
        draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
        checks = {dtype: _Check(norm, place, dtype, draw) for dtype in DTYPES}
        worst = {dtype: max(check.forward(), check.backward()) for dtype, check in checks.items()}
        return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"

    return selfcheck
