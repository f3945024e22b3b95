# SPDX-License-Identifier: MIT
"""How linear is tested and timed: cases, tolerances, unavoidable work, the check without torch.

A case's shape is that of x; its options are the rows of the weight, the activation and whether there is a bias.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops.linear import _reference as reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._selfcheck import Place

_DTYPES = ("float32", "float16", "bfloat16")
# Half a unit in the last place of the result; of the terms what sums in float32 lose, and the rounding of the sums
# where torch multiplies.
TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-14, 1e-14),
    "float32": Tolerance(2e-6, 1e-7, 2e-6),
    "float16": Tolerance(2.0**-11 * 1.02, 1e-7, 2.0**-11 * 1.02),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 1e-7, 2.0**-8 * 1.02),
}

# x, and rows of the weight.
_SHAPES = (
    ((3, 1), 1), ((3, 5), 7), ((3, 33), 20), ((3, 64), 16), ((64,), 33), ((0, 64), 8), ((4, 0), 5), ((2, 0, 16), 4),
    ((4, 16), 0), ((2, 3, 40), 24), ((2, 1, 3, 1, 24), 9), ((1, 128), 64), ((65, 72), 130), ((129, 200), 136),
    ((300, 449), 77), ((257, 64), 260), ((130, 1000), 129),
)  # fmt: skip
_ACTIVATIONS = reference.ACTIVATIONS


def _options(number: int, n: int) -> dict[str, Any]:
    return {"n": n, "activation": _ACTIVATIONS[number % len(_ACTIVATIONS)], "bias": number % 2 == 0}


CASES = tuple(
    Case("default", shape, dtype, _options(3 * place + number, n))
    for place, (shape, n) in enumerate(_SHAPES)
    for number, dtype in enumerate(_DTYPES)
) + tuple(
    Case("default", (140, 136), dtype, {"n": 200, "activation": activation, "bias": True})
    for dtype in _DTYPES
    for activation in _ACTIVATIONS
)  # fmt: skip
BENCHMARKS = tuple(
    Case("default", (m, k), "bfloat16", {"n": n, "activation": activation, "bias": True})
    for m, n, k in (
        (4096, 4096, 4096), (8192, 8192, 8192), (2048, 14336, 4096), (256, 28672, 8192), (256, 4096, 14336),
        (64, 14336, 4096), (1, 14336, 4096),
    )
    for activation in ("none", "silu", "gelu")
)  # fmt: skip


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    """Sums as wide as the normal distribution, or twice that."""
    import torch

    def draw(*shape: int) -> Any:
        return torch.randn(shape, generator=generator, device=device)

    (*_, k), n, dtype = case.shape, case.options["n"], getattr(torch, case.dtype)
    weight = draw(n, k) * (2 / max(k, 1) ** 0.5)
    bias = draw(n).to(dtype) if case.options["bias"] else None
    return draw(*case.shape).to(dtype), weight.to(dtype), bias, case.options["activation"]


def traffic(case: Case) -> int:
    *rows, k = case.shape
    m, n = math.prod(rows), case.options["n"]
    return (m * k + n * k + m * n + n * case.options["bias"]) * SIZES[case.dtype]


def flops(case: Case) -> int:
    return 2 * math.prod(case.shape) * case.options["n"]


def _eager(x: Any, weight: Any, bias: Any, activation: str) -> Callable[[], Any]:
    """What one writes in torch today."""
    from torch.nn import functional

    return lambda: reference.activated(functional.linear(x, weight, bias), activation)


EAGER: dict[str, Callable[..., Callable[[], Any]]] = {"default": _eager}

_M, _N, _K, _STRIDE, _SENTINEL = 5, 7, 19, 24, 7.0


def activated(value: float, activation: str) -> float:
    if activation == "silu":
        return value / (1 + math.exp(-value))
    if activation == "gelu":
        return 0.5 * value * (1 + math.erf(value / 2**0.5))
    if activation == "gelu_tanh":
        return 0.5 * value * (1 + math.tanh((2 / math.pi) ** 0.5 * (value + 0.044715 * value**3)))
    positive = max(value, 0.0)
    return {"none": value, "relu": positive, "squared_relu": positive * positive}[activation]


def _once(place: Place, dtype: str, activation: str, draw: random.Random) -> float:
    x, weight, bias = (
        rounded(dtype, [draw.gauss(0, 1) for _ in range(count)]) for count in (_M * _STRIDE, _N * _STRIDE, _N)
    )
    found = pack(dtype, [_SENTINEL] * (_M * _STRIDE))
    place.call(
        "kw_linear", place.device, None, found, _STRIDE, pack(dtype, x), _STRIDE, pack(dtype, weight), _STRIDE,
        pack(dtype, bias), _M, _N, _K, reference.ACTIVATIONS.index(activation), place.constants[f"KW_{dtype.upper()}"],
    )  # fmt: skip
    expected = [_SENTINEL] * (_M * _STRIDE)
    for row in range(_M):
        for column in range(_N):
            products = (x[row * _STRIDE + i] * weight[column * _STRIDE + i] for i in range(_K))
            expected[row * _STRIDE + column] = activated(sum(products) + bias[column], activation)
    bound = TOLERANCES[dtype]
    return compare(f"linear, {dtype}, {activation}", unpack(dtype, found), expected, bound.relative, 2e-4)


def selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = {dtype: max(_once(place, dtype, name, draw) for name in _ACTIVATIONS) for dtype in _DTYPES}
    return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"
