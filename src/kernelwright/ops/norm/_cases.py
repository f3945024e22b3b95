# SPDX-License-Identifier: MIT
"""How the normalisations are tested and timed: cases, tolerances, unavoidable work, the check without torch."""

from __future__ import annotations

import ctypes
import math
import random
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kernelwright.ops import _sizes as sizes
from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack, workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kernelwright.ops._selfcheck import Place
    from kernelwright.ops.norm._shared import Norm

DTYPES = sizes.FLOATS

# Half a unit in the last place of the result, and a little for sums in float32.
TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-14, 1e-14),
    "float32": Tolerance(3e-6, 1e-7, 1e-6),
    "float16": Tolerance(2.0**-11 * 1.02, 1e-7, 1e-6),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 1e-7, 1e-6),
}

_SHAPES = (
    *sizes.rows_of(*sizes.EDGES, 255, 256, 257, 511, 768, 1000, 1024, 2047, 4096, 5120),
    *sizes.DIMENSIONS,
    (1, 8193),
    (2, 16384),
    (1, 65535),
    (1, 65536),
    (257, 96),
    (1031, 40),
)
_FEW_ROWS = ((1, 4096), (64, 4096), (512, 4096), (4096, 4096), (16384, 4096))
_WIDTHS = tuple((1 << 27 >> shift, 1 << shift) for shift in range(10, 17))  # 1024 to 65536 columns, one size in memory
_ODD = ((1342177, 100), (2670, 50257))  # rows that do not lie on 16 bytes
_BENCHMARKED = (
    *((shape, "bfloat16") for shape in (*_FEW_ROWS, *_WIDTHS, *_ODD)),
    *((shape, "float32") for shape in ((1, 4096), (512, 4096), (4096, 4096), (16384, 8192))),
    ((4096, 4096), "float16"),
)
_FORWARD = ("default", "residual", "residual_")
# Element types of (weight, bias): "same" as x, float32, or none of it.
_KINDS = ((None, None), ("same", "same"), ("float32", "float32"), ("same", None), (None, "float32"))


@dataclass(frozen=True)
class Cases:
    """Of one norm. A case's options are the kind of each parameter and, for backward, `sum` and `wanted`."""

    norm: Norm

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        return tuple(self._cases())

    def _cases(self) -> Iterator[Case]:
        kinds = list(dict.fromkeys(kind[: len(self.norm.parameters)] for kind in _KINDS))
        for overload in (*_FORWARD, "backward"):
            for index, shape in enumerate(_SHAPES):
                for number, dtype in enumerate(DTYPES):
                    kind = kinds[(index + number) % len(kinds)]
                    yield self._case(overload, shape, dtype, kind, index)

    def _case(self, overload: str, shape: tuple[int, ...], dtype: str, kind: Any, index: int) -> Case:
        options: dict[str, Any] = dict(zip(self.norm.parameters, kind, strict=True))
        if overload == "backward":
            options["sum"] = index % 2 == 1
            # Mostly what there is, and at times one alone or none.
            options["wanted"] = "".join(
                name[0] for place, (name, k) in enumerate(zip(self.norm.parameters, kind, strict=True))
                if k is not None and (index + place) % 5
            )  # fmt: skip
        return Case(overload, shape, dtype, options)

    @cached_property
    def benchmarks(self) -> tuple[Case, ...]:
        kind = ("same",) * len(self.norm.parameters)
        options: dict[str, Any] = dict(zip(self.norm.parameters, kind, strict=True))
        wanted = "".join(name[0] for name in self.norm.parameters)
        forward = [Case(o, shape, dtype, options) for o in _FORWARD for shape, dtype in _BENCHMARKED]
        backward = [
            Case("backward", shape, dtype, {**options, "sum": with_sum, "wanted": wanted})
            for with_sum in (False, True)
            for shape, dtype in _BENCHMARKED
        ]
        return (*forward, *backward)

    def make(self, case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
        import torch

        def draw(*shape: int, dtype: str = case.dtype) -> Any:
            return torch.randn(shape, generator=generator, device=device).to(getattr(torch, dtype))

        kinds = [case.options[name] for name in self.norm.parameters]
        types = [case.dtype if kind == "same" else kind for kind in kinds]
        parameters = [None if t is None else draw(case.shape[-1], dtype=t) for t in types]
        eps = case.options.get("eps", 1e-6)
        if case.overload == "backward":
            grad_sum = draw(*case.shape) if case.options["sum"] else None
            wanted = [name[0] in case.options["wanted"] for name in self.norm.parameters]
            return draw(*case.shape), draw(*case.shape), *parameters, grad_sum, eps, *wanted
        tensors = 1 if case.overload == "default" else 2
        return (*(draw(*case.shape) for _ in range(tensors)), *parameters, eps)

    def traffic(self, case: Case) -> int:
        """x and y; with a residual it and the sum too; dy, h and dx, and the sum's if there is one; parameters once."""
        size = SIZES[case.dtype]
        kinds = [case.options[name] for name in self.norm.parameters]
        each = [0 if kind is None else size if kind == "same" else SIZES[kind] for kind in kinds]
        parameters = sum(each)
        if case.overload == "backward":
            passes = 3 + case.options["sum"]
            read = each[0]  # a bias has no part in it
            parameters = read + sum(
                s for s, name in zip(each, self.norm.parameters, strict=True) if name[0] in case.options["wanted"]
            )
        else:
            passes = 2 if case.overload == "default" else 4
        return math.prod(case.shape) * size * passes + parameters * case.shape[-1]

    def flops(self, case: Case) -> int:
        """Operations an element: those of the formula, and one for each parameter and each sum.

        rms_norm squares, sums and scales; layer_norm sums, takes the mean off, squares, sums and scales. Backward
        makes u of h again, sums g * u, and takes u's share off and scales (and sums g and takes its mean off).
        """
        given = sum(case.options[name] is not None for name in self.norm.parameters)
        if case.overload == "backward":
            wanted = case.options["wanted"]
            with_weight = case.options["weight"] is not None
            each = (12 if self.norm.centered else 8) + with_weight + case.options["sum"]
            each += 2 * ("w" in wanted) + ("b" in wanted)
        else:
            each = (5 if self.norm.centered else 3) + given + (case.overload != "default")
        return math.prod(case.shape) * each


# --- the C functions without torch, against plain Python

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
