# SPDX-License-Identifier: MIT
"""How linear_ternary is tested and timed: cases whose codes no rounding decides, bounds, the check without torch."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops.ternary import _cases as cases
from kernelwright.ops.ternary import _codes as codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._selfcheck import Place

# As of matmul_ternary; what is rounded before the residual or beside a bias errs by half a unit of its own.
TOLERANCES = {
    **cases.TOLERANCES,
    **{
        name: Tolerance(cases.TOLERANCES[name].relative, 1e-7, cases.TOLERANCES[name].relative)
        for name in ("float16", "bfloat16")
    },
}

_SHAPES = (
    ((1, 1), 1), ((3, 5), 7), ((1, 128), 16), ((8, 128), 33), ((2, 3, 40), 24), ((64,), 33), ((3, 33), 20),
    ((3, 64), 16), ((0, 64), 8), ((4, 0), 5), ((4, 16), 0), ((1, 1000), 260), ((9, 300), 50), ((16, 520), 17),
    ((17, 256), 40), ((40, 333), 130), ((5, 4224), 40), ((16, 9000), 20), ((2, 28672), 36), ((1, 2560), 640),
)  # fmt: skip
_NORMS = ((None, -1.0), ("same", 1e-5), ("float32", 1e-6), (None, 1e-5), (None, -1.0))


def _options(number: int, shape: tuple[int, ...], n: int) -> dict[str, Any]:
    weight, eps = _NORMS[number % len(_NORMS)] if shape[-1] else _NORMS[0]
    return {
        "n": n, "scales": ("one", "rows", "none")[number % 3], "bias": number % 4 == 1, "residual": number % 2 == 0,
        "weight": weight, "eps": eps,
    }  # fmt: skip


CASES = tuple(
    Case("default", shape, dtype, _options(place + number, shape, n))
    for place, (shape, n) in enumerate(_SHAPES)
    for number, dtype in enumerate(cases.DTYPES)
)
BENCHMARKS = tuple(
    Case(
        "default", (m, k), "bfloat16",
        {"n": n, "scales": "one", "bias": False, "residual": residual, "weight": None if residual else "same",
         "eps": -1.0 if residual else 1e-5},
    )
    for m in (1, 8, 16)
    for n, k, residual in ((3840, 2560, False), (13824, 2560, False), (2560, 6912, True))
)  # fmt: skip


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    """x is codes times a power of two, over a weight of powers of two: what is rounded is near a whole number."""
    import torch

    options, dtype = case.options, getattr(torch, case.dtype)
    (*leading, k), n = case.shape, options["n"]

    def draw(low: int, high: int, *shape: int) -> Any:
        return torch.randint(low, high, shape, generator=generator, device=device).float()

    x, weight = draw(-127, 128, *leading, k) / 64, None
    if k:
        x[..., 0] = 127 / 64
    if options["weight"]:
        weight = draw(-1, 2, k).exp2()
        x = x / weight
        weight = weight if options["weight"] == "float32" else weight.to(dtype)
    count = {"none": None, "one": 1, "rows": n}[options["scales"]]
    scale = None if count is None else (0.5 + torch.rand(count, generator=generator, device=device)) / max(k, 1) ** 0.5
    bias, residual = (
        torch.randn(shape, generator=generator, device=device).to(dtype) if options[name] else None
        for name, shape in (("bias", (n,)), ("residual", (*leading, n)))
    )
    packed = codes.pack(draw(-1, 2, n, k))
    return x.to(dtype), packed, scale, bias, weight, options["eps"], 1e-5, residual, n


def traffic(case: Case) -> int:
    *leading, k = case.shape
    n, size, options = case.options["n"], SIZES[case.dtype], case.options
    weight = 0 if options["weight"] is None else SIZES["float32" if options["weight"] == "float32" else case.dtype]
    results = math.prod(leading) * n * size * (2 if options["residual"] else 1)
    return math.prod(codes.packed_shape(n, k)) + math.prod(leading) * k * size + results + weight * k


def flops(case: Case) -> int:
    return 2 * math.prod(case.shape) * case.options["n"]


def eager(
    x: Any, packed: Any, scale: Any, bias: Any, weight: Any, eps: float, _: float, residual: Any, n: int
) -> Callable[[], Any]:
    """What one has in torch: the weight in x's type, once for all calls, and x not quantized."""
    import torch
    from torch.nn import functional

    one = x.new_ones(1, dtype=torch.float32) if scale is None else scale
    dense = codes.dequantize(packed, one, n, x.shape[-1], x.dtype)
    given = None if weight is None else weight.to(x.dtype)

    def run() -> Any:
        h = x if eps < 0.0 else functional.rms_norm(x, x.shape[-1:], given, eps)
        y = functional.linear(h, dense, bias)
        return y if residual is None else y + residual

    return run


# --- the check of the C function without torch --------------------------------------

_M, _N, _K, _STRIDE = cases.M, cases.N, cases.K, cases.STRIDE


def _check(place: Place, dtype: str, draw: random.Random) -> float:
    """Of a norm, whose weight is made of powers of two, and a residual that cancels nothing."""
    values, power = cases.draw_values(draw), [2.0 ** draw.randint(-1, 1) for _ in range(_K)]
    whole = [[127, *(draw.randint(-127, 127) for _ in range(_K - 1))] for _ in range(_M)]
    x = [code / 64 / factor for row in whole for code, factor in zip(row, power, strict=True)]
    scale = rounded("float32", [draw.uniform(0.5, 1) for _ in range(_N)])
    expected, found = [7.0] * (_M * _STRIDE), pack(dtype, [7.0] * (_M * _STRIDE))
    residual, most = [0.0] * (_M * _N), 0.0
    for row in range(_M):
        h = x[row * _K : (row + 1) * _K]
        absmax = 127 / 64 / math.sqrt(sum(each * each for each in h) / _K + 1e-5)
        for column in range(_N):
            total = sum(a * b for a, b in zip(whole[row], values[column], strict=True))
            exact = total * absmax / 127 * scale[column]
            added = rounded(dtype, [math.copysign(draw.uniform(1, 2), exact)])[0]
            residual[row * _N + column], expected[row * _STRIDE + column] = added, exact + added
            most = max(most, abs(exact))
    number = place.constants[f"KW_{dtype.upper()}"]
    place.call(
        "kw_linear_ternary", place.device, None, found, _STRIDE, pack(dtype, x), _K, pack(dtype, power),
        cases.aligned(cases.codes_of(values)), pack("float32", scale), _N, None, pack(dtype, residual), _N, _M, _N, _K,
        number, number, 1e-5, 1e-5,
    )  # fmt: skip
    relative = TOLERANCES[dtype].relative
    return compare(f"linear_ternary, {dtype}", unpack(dtype, found), expected, relative, relative * most)


def selfcheck(place: Place) -> str:
    return cases.of_each_type(_check, place)
