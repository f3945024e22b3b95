# SPDX-License-Identifier: MIT
"""How rms_norm is tested and timed: cases, tolerances, unavoidable work, the check without torch."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright._library import Library

_SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}

# Half a unit in the last place of the result, and a little for sums in float32.
TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-14),
    "float32": Tolerance(3e-6, 1e-7),
    "float16": Tolerance(2.0**-11 * 1.02, 1e-7),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 1e-7),
}

_COLS = (1, 2, 3, 7, 8, 15, 16, 31, 33, 64, 100, 127, 128, 129, 255, 256, 257, 511, 768, 1000, 1024, 2047, 4096, 5120)
_SHAPES = (
    *((3, cols) for cols in _COLS),
    (64,),
    (0, 64),
    (2, 0, 16),
    (2, 3, 40),
    (2, 1, 3, 1, 24),
    (1, 8193),
    (2, 16384),
    (1, 65535),
    (1, 65536),
    (257, 96),
)
_FACTORS: tuple[str | None, ...] = (None, "same", "float32")


_DTYPES = ("float32", "float16", "bfloat16")
_OVERLOADS = ("default", "residual", "residual_")

CASES = tuple(
    Case(overload, shape, dtype, {"weight": _FACTORS[(index + number) % len(_FACTORS)]})
    for overload in _OVERLOADS
    for index, shape in enumerate(_SHAPES)
    for number, dtype in enumerate(_DTYPES)
)
_FEW_ROWS = ((1, 4096), (64, 4096), (512, 4096), (4096, 4096), (16384, 4096))
_WIDTHS = tuple((1 << 27 >> shift, 1 << shift) for shift in range(10, 17))  # 1024 to 65536 columns, one size in memory
_ODD = ((1342177, 100), (2670, 50257))  # rows that do not lie on 16 bytes
BENCHMARKS = tuple(
    Case(overload, shape, dtype, {"weight": "same"})
    for overload in _OVERLOADS
    for dtype, shapes in (
        ("bfloat16", (*_FEW_ROWS, *_WIDTHS, *_ODD)),
        ("float32", ((1, 4096), (512, 4096), (4096, 4096), (16384, 8192))),
        ("float16", ((4096, 4096),)),
    )
    for shape in shapes
)


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    def draw(*shape: int, dtype: str = case.dtype) -> Any:
        return torch.randn(shape, generator=generator, device=device).to(getattr(torch, dtype))

    kind = case.options["weight"]
    weight = None if kind is None else draw(case.shape[-1], dtype=case.dtype if kind == "same" else kind)
    tensors = 1 if case.overload == "default" else 2
    return (*(draw(*case.shape) for _ in range(tensors)), weight, case.options.get("eps", 1e-6))


def traffic(case: Case) -> int:
    """x and y; with a residual it and the sum too; weight once."""
    size = _SIZES[case.dtype]
    kind = case.options["weight"]
    weight = 0 if kind is None else case.shape[-1] * (size if kind == "same" else _SIZES[kind])
    return math.prod(case.shape) * size * (2 if case.overload == "default" else 4) + weight


def flops(case: Case) -> int:
    """A square, a sum, a product for each element; one more each for weight and residual."""
    return math.prod(case.shape) * (3 + (case.options["weight"] is not None) + (case.overload != "default"))


def _eager(x: Any, weight: Any, eps: float) -> Callable[[], Any]:
    from torch.nn.functional import rms_norm

    return lambda: rms_norm(x, x.shape[-1:], weight, eps)


def _eager_residual(x: Any, residual: Any, weight: Any, eps: float) -> Callable[[], Any]:
    from torch.nn.functional import rms_norm

    def call() -> Any:
        h = x + residual
        return rms_norm(h, x.shape[-1:], weight, eps), h

    return call


def _eager_residual_(x: Any, residual: Any, weight: Any, eps: float) -> Callable[[], Any]:
    from torch.nn.functional import rms_norm

    return lambda: (rms_norm(residual.add_(x), x.shape[-1:], weight, eps), residual)


EAGER: dict[str, Callable[..., Callable[[], Any]]] = {
    "default": _eager,
    "residual": _eager_residual,
    "residual_": _eager_residual_,
}

_ROWS, _WIDTH, _STRIDE, _EPS, _SENTINEL = 3, 37, 41, 1e-6, 7.0


def _expected(x: list[float], residual: list[float], weight: list[float]) -> tuple[list[float], list[float]]:
    """y and h over padded rows; what lies between rows must stay the sentinel."""
    y, h = [_SENTINEL] * (_ROWS * _STRIDE), [_SENTINEL] * (_ROWS * _STRIDE)
    for start in range(0, _ROWS * _STRIDE, _STRIDE):
        row = [x[start + i] + residual[start + i] for i in range(_WIDTH)]
        rstd = 1 / math.sqrt(sum(v * v for v in row) / _WIDTH + _EPS)
        y[start : start + _WIDTH] = [v * rstd * w for v, w in zip(row, weight, strict=True)]
        h[start : start + _WIDTH] = row
    return y, h


def _once(library: Library, dtype: str, draw: random.Random) -> float:
    x, residual = (rounded(dtype, [draw.gauss(0, 1) for _ in range(_ROWS * _STRIDE)]) for _ in range(2))
    weight = rounded(dtype, [draw.gauss(1, 0.5) for _ in range(_WIDTH)])
    y, h = (pack(dtype, [_SENTINEL] * (_ROWS * _STRIDE)) for _ in range(2))
    inputs = [pack(dtype, values) for values in (x, residual, weight)]
    code = library.constants[f"KW_{dtype.upper()}"]
    # fmt: off
    library.call(
        "kw_rms_norm", library.constants["KW_CPU"], None, y, _STRIDE, h, _STRIDE,
        inputs[0], _STRIDE, inputs[1], _STRIDE, inputs[2], None, _ROWS, _WIDTH, code, code, _EPS,
    )
    # fmt: on
    bound = TOLERANCES[dtype]
    found = (unpack(dtype, buffer) for buffer in (y, h))
    return max(
        compare(f"rms_norm, {dtype}, {what}", values, expected, bound.relative, bound.absolute)
        for what, values, expected in zip(("y", "sum"), found, _expected(x, residual, weight), strict=True)
    )


def selfcheck(library: Library) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = {dtype: _once(library, dtype, draw) for dtype in _DTYPES}
    return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"
