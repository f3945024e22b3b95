# SPDX-License-Identifier: MIT
"""How operators on ternary weights are tested and timed: cases, tolerances, unavoidable work, checks without torch."""

from __future__ import annotations

import ctypes
import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops import _sizes as sizes
from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack, workspace
from kernelwright.ops.ternary import _codes as codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._selfcheck import Place

DTYPES = sizes.FLOATS

# Half a unit in the last place of the result, and what products in float32 lose. Integers and codes are exact.
TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-14, 1e-14),
    "float32": Tolerance(1e-6, 1e-7, 1e-6),
    "float16": Tolerance(2.0**-11 * 1.02, 1e-7, 1e-6),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 1e-7, 1e-6),
    "uint8": Tolerance(0.0, 0.25),
    "int8": Tolerance(0.0, 0.25),
    "int32": Tolerance(0.0, 0.25),
}

# --- weights to codes and back: a case's shape is that of the weight ----------------

_WEIGHTS = (
    (1, 1), (3, 5), (16, 128), (17, 129), (15, 127), (7, 64), (40, 300), (0, 64), (4, 0), (33, 1000), (128, 520),
    (2, 4100), sizes.SMALL, sizes.ALIGNED,
)  # fmt: skip
CODE_CASES = tuple(
    Case("default", shape, dtype, {"per_row": (place + number) % 2 == 0})
    for place, shape in enumerate(_WEIGHTS)
    for number, dtype in enumerate(DTYPES)
)
CODE_BENCHMARKS = tuple(
    Case("default", shape, dtype, {"per_row": False})
    for shape in ((2560, 6912), (4096, 4096), (28672, 8192))
    for dtype in ("bfloat16", "float32")
)


def draw_weight(shape: tuple[int, ...], device: Any, generator: Any) -> Any:
    """Far from where a code is decided by the last bit of a scale: near -1, 0 and 1."""
    import torch

    values = torch.randint(-1, 2, shape, generator=generator, device=device).float()
    noise = torch.rand(shape, generator=generator, device=device) - 0.5
    return values * (1 + noise * 0.3) + (values == 0) * noise * 0.1


def make_weight(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    weight = draw_weight(case.shape, device, generator)
    return weight.to(getattr(torch, case.dtype)), case.options["per_row"]


def make_codes(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    n, k = case.shape
    values = torch.randint(-1, 2, (n, k), generator=generator, device=device)
    scale = 0.5 + torch.rand(n if case.options["per_row"] else 1, generator=generator, device=device)
    return codes.pack(values), scale, n, k, getattr(torch, case.dtype)


def traffic_of_codes(case: Case) -> int:
    n, k = case.shape
    return n * k * SIZES[case.dtype] + math.prod(codes.packed_shape(n, k)) + 4 * (n if case.options["per_row"] else 1)


# --- products: a case's shape is that of x -------------------------------------------

_SHAPES = (
    ((1, 1), 1), ((3, 5), 7), ((1, 128), 16), ((8, 128), 33), ((2, 3, 40), 24), ((64,), 33), (sizes.SMALL, 20),
    (sizes.ALIGNED, 16), ((0, 64), 8), ((4, 0), 5),
    ((40, 0), 5), ((4, 16), 0), ((2, 0, 16), 4), ((1, 1000), 260), ((9, 300), 50), ((16, 520), 17), ((17, 256), 40),
    ((32, 1030), 100), ((33, 128), 128), ((40, 333), 130), ((129, 260), 140), ((150, 640), 260), ((70, 1152), 300),
    ((260, 144), 520), ((5, 4224), 40), ((20, 9000), 20), ((4, 28672), 36), ((30, 640), 260), ((48, 1152), 300),
    ((140, 144), 100),
)  # fmt: skip


def _options(number: int, n: int) -> dict[str, Any]:
    scales = ("none", "one", "rows")[number % 3]
    return {"n": n, "scales": scales, "bias": number % 4 == 1, "sums": number % 5 == 4}


PRODUCT_CASES = tuple(
    Case("default", shape, dtype, _options(3 * place + number, n))
    for place, (shape, n) in enumerate(_SHAPES)
    for number, dtype in enumerate(DTYPES)
)
_PLAIN = {"scales": "one", "bias": False, "sums": False}
PRODUCT_BENCHMARKS = tuple(
    Case("default", (m, k), "bfloat16", {"n": n, **_PLAIN})
    for m, n, k in (
        (1, 28672, 8192), (8, 28672, 8192), (16, 28672, 8192), (32, 28672, 8192), (1, 2560, 6912), (1, 3840, 2560),
        (1, 13824, 2560), (8, 13824, 2560), (64, 28672, 8192), (512, 4096, 4096), (2048, 4096, 4096),
        (8192, 4096, 4096),
        (512, 28672, 8192), (2048, 28672, 8192), (8192, 28672, 8192),
    )
)  # fmt: skip


def make_product(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    (*rows, k), n, options = case.shape, case.options["n"], case.options
    x = torch.randint(-128, 128, case.shape, generator=generator, device=device, dtype=torch.int8)
    packed = codes.pack(torch.randint(-1, 2, (n, k), generator=generator, device=device))
    if options["sums"]:
        return x, packed, None, None, None, n, torch.int32
    absmax = 0.5 + torch.rand(rows, generator=generator, device=device)
    count = {"none": None, "one": 1, "rows": n}[options["scales"]]
    scale = None if count is None else 0.5 + torch.rand(count, generator=generator, device=device)
    dtype = getattr(torch, case.dtype)
    bias = torch.randn(n, generator=generator, device=device).to(dtype) if options["bias"] else None
    # Sums of 16 bits end at 65504.
    return x, packed, absmax / max(k, 1) ** 0.5, scale, bias, n, dtype


def traffic(case: Case) -> int:
    *rows, k = case.shape
    m, n = math.prod(rows), case.options["n"]
    return math.prod(codes.packed_shape(n, k)) + m * (k + 4) + m * n * SIZES[case.dtype]


def flops(case: Case) -> int:
    return 2 * math.prod(case.shape) * case.options["n"]


def eager(x: Any, packed: Any, absmax: Any, scale: Any, bias: Any, n: int, dtype: Any) -> Callable[[], Any]:
    """What one has in torch: the weight in 16 bits, once for all calls, and x as it was before it was quantized."""
    import torch
    from torch.nn import functional

    kind = torch.bfloat16 if dtype == torch.int32 else dtype
    weight = codes.dequantize(
        packed, x.new_ones(1, dtype=torch.float32) if scale is None else scale, n, x.shape[-1], kind
    )
    wide = x.to(kind) if absmax is None else (x.float() * (absmax.unsqueeze(-1) / 127)).to(kind)
    return lambda: functional.linear(wide, weight, bias)


# --- the checks of the C functions without torch ------------------------------------

M, N, K, STRIDE = 3, 21, 150, 24


def codes_of(values: list[list[int]]) -> bytes:
    """Byte by byte as geometry.h says."""
    groups, blocks = -(-N // codes.ROWS), -(-K // codes.DEPTH)
    found = bytearray()
    for at in range(groups * blocks * codes.BLOCK):
        block, lane, word, byte = at // codes.BLOCK, at // 16 % 32, at // 4 % 4, at % 4
        row = block // blocks * codes.ROWS + lane // 4 + word % 2 * 8
        packed = 0
        for step in range(4):
            k = block % blocks * codes.DEPTH + step * 32 + word // 2 * 16 + lane % 4 * 4 + byte
            packed |= (values[row][k] + 1 if row < N and k < K else 1) << (2 * step)
        found.append(packed)
    return bytes(found)


def aligned(raw: bytes) -> Any:
    found = workspace(len(raw))
    found.raw = raw
    return found


def draw_values(draw: random.Random) -> list[list[int]]:
    return [[draw.randint(-1, 1) for _ in range(K)] for _ in range(N)]


def of_each_type(check: Callable[[Place, str, random.Random], float], place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = max(check(place, dtype, draw) for dtype in DTYPES)
    return f"three types, {100 * worst:.0f} % of the error allowed"


def _check_product(place: Place, dtype: str, draw: random.Random) -> float:
    values = draw_values(draw)
    x = [[draw.randint(-128, 127) for _ in range(K)] for _ in range(M)]
    absmax, scale = (rounded("float32", [draw.uniform(0.5, 1) for _ in range(count)]) for count in (M, N))
    raw = ctypes.create_string_buffer(bytes(value & 255 for row in x for value in row), M * K)
    found = pack(dtype, [7.0] * (M * STRIDE))
    place.call(
        "kw_matmul_ternary", place.device, None, found, STRIDE, raw, K, aligned(codes_of(values)),
        pack("float32", absmax), pack("float32", scale), N, None, M, N, K, place.constants[f"KW_{dtype.upper()}"],
    )  # fmt: skip
    expected = [7.0] * (M * STRIDE)
    for row in range(M):
        for column in range(N):
            total = sum(a * b for a, b in zip(x[row], values[column], strict=True))
            expected[row * STRIDE + column] = total * absmax[row] / 127 * scale[column]
    return compare(f"matmul_ternary, {dtype}", unpack(dtype, found), expected, TOLERANCES[dtype].relative, 1e-6)


def _check_codes(place: Place, dtype: str, draw: random.Random) -> float:
    values = draw_values(draw)
    weight = rounded(dtype, [value * draw.uniform(0.9, 1.1) for row in values for value in row])
    packed, scale = aligned(bytes(len(codes_of(values)))), pack("float32", [7.0])
    number = place.constants[f"KW_{dtype.upper()}"]
    place.call("kw_quantize_ternary", place.device, None, packed, scale, 1, pack(dtype, weight), K, N, K, number)
    made = [float(byte) for byte in bytes(packed)]
    compare(f"quantize_ternary, {dtype}, codes", made, list(codes_of(values)), 0, 0.25)
    mean = sum(map(abs, weight)) / len(weight)
    return compare(f"quantize_ternary, {dtype}, scale", unpack("float32", scale), [mean], 1e-6, 1e-30)


def _check_values(place: Place, dtype: str, draw: random.Random) -> float:
    values, scale = draw_values(draw), rounded("float32", [draw.uniform(0.5, 1) for _ in range(N)])
    found, number = pack(dtype, [7.0] * (N * K)), place.constants[f"KW_{dtype.upper()}"]
    given = aligned(codes_of(values)), pack("float32", scale), N
    place.call("kw_dequantize_ternary", place.device, None, found, K, *given, N, K, number)
    expected = [value * scale[row] for row, each in enumerate(values) for value in each]
    return compare(f"dequantize_ternary, {dtype}", unpack(dtype, found), rounded(dtype, expected), 0, 1e-30)


def selfcheck_product(place: Place) -> str:
    return of_each_type(_check_product, place)


def selfcheck_quantize(place: Place) -> str:
    return of_each_type(_check_codes, place)


def selfcheck_dequantize(place: Place) -> str:
    return of_each_type(_check_values, place)
