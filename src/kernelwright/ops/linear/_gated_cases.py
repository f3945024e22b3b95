# SPDX-License-Identifier: MIT
"""How gated_linear is tested and timed. A case's shape is that of x; n is the width of the result."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops.linear import _cases as linear
from kernelwright.ops.linear import _reference as reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._selfcheck import Place

# Those of linear; where torch multiplies, the gate is rounded once more.
TOLERANCES = {dtype: Tolerance(2.05 * of.relative, of.absolute, of.terms) for dtype, of in linear.TOLERANCES.items()}

_SHAPES = (
    ((3, 1), 1), ((3, 33), 20), ((3, 64), 16), ((64,), 33), ((0, 64), 8), ((4, 0), 5), ((4, 16), 0), ((2, 3, 40), 24),
    ((1, 128), 64), ((65, 72), 66), ((129, 200), 136), ((257, 64), 130), ((130, 1000), 65),
)  # fmt: skip
_DTYPES = ("float32", "float16", "bfloat16")
_ACTIVATIONS = reference.ACTIVATIONS

CASES = tuple(
    Case(
        "default", shape, dtype,
        {"n": n, "activation": _ACTIVATIONS[(3 * place + number) % 6], "bias": (place + number) % 2 == 0},
    )
    for place, (shape, n) in enumerate(_SHAPES)
    for number, dtype in enumerate(_DTYPES)
) + tuple(
    Case("default", (140, 136), dtype, {"n": 100, "activation": activation, "bias": True})
    for dtype in _DTYPES
    for activation in _ACTIVATIONS
)  # fmt: skip
BENCHMARKS = tuple(
    Case("default", (m, k), "bfloat16", {"n": n, "activation": activation, "bias": False})
    for m, n, k in ((4096, 4096, 4096), (2048, 14336, 4096), (2048, 8192, 8192), (256, 14336, 4096), (1, 14336, 4096))
    for activation in ("silu", "gelu_tanh")
)


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    both = Case(case.overload, case.shape, case.dtype, {**case.options, "n": 2 * case.options["n"]})
    return linear.make(both, device, generator)


def traffic(case: Case) -> int:
    *rows, k = case.shape
    m, n = math.prod(rows), case.options["n"]
    return (m * k + 2 * n * k + m * n + 2 * n * case.options["bias"]) * SIZES[case.dtype]


def flops(case: Case) -> int:
    return 4 * math.prod(case.shape) * case.options["n"]


def _eager(x: Any, weight: Any, bias: Any, activation: str) -> Callable[[], Any]:
    """What one writes in torch today."""
    from torch.nn import functional

    def run() -> Any:
        gate, up = functional.linear(x, weight, bias).chunk(2, -1)
        return reference.activated(gate, activation) * up

    return run


EAGER: dict[str, Callable[..., Callable[[], Any]]] = {"default": _eager}

_M, _N, _K, _STRIDE, _SENTINEL = 5, 7, 19, 24, 7.0


def _once(place: Place, dtype: str, activation: str, draw: random.Random) -> float:
    x, weight, bias = (
        rounded(dtype, [draw.gauss(0, 1) for _ in range(count)]) for count in (_M * _STRIDE, 2 * _N * _STRIDE, 2 * _N)
    )
    found = pack(dtype, [_SENTINEL] * (_M * _STRIDE))
    place.call(
        "kw_gated_linear", place.device, None, found, _STRIDE, pack(dtype, x), _STRIDE, pack(dtype, weight), _STRIDE,
        pack(dtype, bias), _M, _N, _K, reference.ACTIVATIONS.index(activation), place.constants[f"KW_{dtype.upper()}"],
    )  # fmt: skip
    expected = [_SENTINEL] * (_M * _STRIDE)
    for row in range(_M):
        sums = [
            sum(x[row * _STRIDE + i] * weight[column * _STRIDE + i] for i in range(_K)) + bias[column]
            for column in range(2 * _N)
        ]
        for column in range(_N):
            expected[row * _STRIDE + column] = linear.activated(sums[column], activation) * sums[_N + column]
    return compare(
        f"gated_linear, {dtype}, {activation}", unpack(dtype, found), expected, TOLERANCES[dtype].relative, 2e-3
    )


def selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = {dtype: max(_once(place, dtype, name, draw) for name in _ACTIVATIONS) for dtype in _DTYPES}
    return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"
