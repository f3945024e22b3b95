# SPDX-License-Identifier: MIT
"""How attention_fp8 is tested and timed. A case's shape is [batch, heads, queries, d] of q and its type the result's;
its options say the rest: kv_heads, keys, d_v, causal, window, and whose own the factors are."""

from __future__ import annotations

import ctypes
import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops.attention import _cases as usual
from kernelwright.ops.attention import _fp8 as definition
from kernelwright.ops.fp8._rows import number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kernelwright.ops._selfcheck import Place

# What the terms are is said there. Expected results are rounded to the type, too.
TOLERANCES = {
    "float64": Tolerance(1e-11, 1e-13, 1e-12),
    "float32": Tolerance(4e-6, 1e-6, 2.0**-10),
    "float16": Tolerance(2.0**-10, 1e-6, 2.0**-4),
    "bfloat16": Tolerance(2.0**-7, 1e-6, 2.0**-4),
}
ROLES = {"small": (2, 4, 5, 19), "aligned": (1, 2, 16, 64)}
_HALVES = ("bfloat16", "float16")
_TYPES = (*_HALVES, "float32")


def _case(shape: tuple[int, ...], dtype: str, **options: Any) -> Case:
    return Case("default", shape, dtype, options)


# Shapes of q, and options. "steep": scores so far apart that a row is nearly one key's.
_FORMS: tuple[tuple[tuple[int, ...], Mapping[str, Any]], ...] = (
    ((1, 1, 1, 64), {"keys": 1}), ((1, 2, 5, 64), {"keys": 5, "causal": True, "scales": "head"}),
    ((2, 4, 33, 64), {"keys": 70, "kv_heads": 2, "scales": "head"}),
    ((1, 2, 130, 64), {"keys": 130, "causal": True, "scales": "tensor"}),
    ((1, 1, 200, 128), {"keys": 200, "causal": True, "scales": "tensor"}),
    ((1, 4, 65, 128), {"keys": 129, "kv_heads": 1, "scales": "head"}),
    ((2, 2, 129, 128), {"keys": 300, "kv_heads": 1, "causal": True, "scales": "head"}),
    ((1, 1, 20, 64), {"keys": 600, "scales": "tensor"}), ((1, 1, 40, 128), {"keys": 260, "scales": "steep"}),
    ((1, 2, 40, 64), {"keys": 140, "scales": "steep", "causal": True}),
    ((1, 2, 150, 64), {"keys": 150, "window": (20, 10), "scales": "head"}),
    ((1, 2, 140, 128), {"keys": 280, "window": (30, -1), "causal": True, "scales": "head"}),
    ((1, 2, 129, 64), {"keys": 40, "causal": True, "scales": "head"}), ((0, 2, 8, 64), {"keys": 8}),
    ((1, 2, 0, 64), {"keys": 8}), ((2, 2, 8, 64), {"keys": 0, "scales": "head"}),
    ((1, 2, 40, 72), {"keys": 50, "d_v": 40, "scales": "head"}), ((1, 1, 30, 31), {"keys": 45, "d_v": 17}),
    ((1, 2, 70, 96), {"keys": 133, "causal": True, "kv_heads": 1, "scales": "tensor"}),
    ((1, 1, 9, 256), {"keys": 70, "scales": "head"}),
)  # fmt: skip
CASES = (
    *(_case(shape, dtype, **options) for shape, options in _FORMS for dtype in _HALVES),
    *(_case(ROLES["small"], dtype, keys=7, kv_heads=2, causal=True, scales="head") for dtype in _TYPES),
    *(_case(ROLES["aligned"], dtype, keys=16, scales="tensor") for dtype in _TYPES),
    _case((1, 2, 70, 64), "float32", keys=90, causal=True, scales="head"),
)
BENCHMARKS = tuple(
    _case(shape, "bfloat16", keys=shape[2], causal=causal, scales="head", **more)
    for shape, causal, more in (
        ((4, 32, 4096, 128), True, {}), ((4, 32, 4096, 128), False, {}), ((4, 32, 4096, 64), True, {}),
        ((4, 32, 4096, 64), False, {}), ((1, 32, 16384, 128), True, {"kv_heads": 8}), ((16, 32, 1024, 128), True, {}),
        ((1, 32, 256, 64), True, {}),
    )
)  # fmt: skip


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    """Codes as rows quantized by their largest number have them, and factors by which they are as wide as the normal
    distribution, or twice; without factors codes are that wide."""
    import torch

    options, (batch, heads, queries, d) = case.options, case.shape
    kv_heads, keys, d_v = options.get("kv_heads", heads), options["keys"], options.get("d_v", d)
    scales, size = options.get("scales"), 120.0 if options.get("scales") else 1.0

    def codes(*shape: int) -> Any:
        values = torch.randn(shape, generator=generator, device=device) * size
        return values.clamp(-448, 448).to(torch.float8_e4m3fn)

    def factor(of_heads: int) -> Any:
        if scales is None:
            return None
        shape = () if scales == "tensor" else (batch, of_heads)
        made = (torch.rand(shape, generator=generator, device=device) + 0.5) / size
        return made * 8.0 if scales == "steep" else made

    q, k, v = codes(batch, heads, queries, d), codes(batch, kv_heads, keys, d), codes(batch, kv_heads, keys, d_v)
    scale, causal, left, right, _ = usual.numbers(case)
    of = factor(heads), factor(kv_heads), factor(kv_heads)
    return q, k, v, *of, scale, causal, left, right, getattr(torch, case.dtype)


def traffic(case: Case) -> int:
    batch, heads, queries, d = case.shape
    options = case.options
    d_v = options.get("d_v", d)
    kv = batch * options.get("kv_heads", heads) * options["keys"] * (d + d_v)
    return kv + batch * heads * queries * (d + d_v * SIZES[case.dtype])


def _eager(
    q: Any, k: Any, v: Any, q_scale: Any, k_scale: Any, v_scale: Any, scale: Any, causal: Any, left: Any, right: Any,  # noqa: ARG001
    dtype: Any,
) -> Callable[[], Any]:  # fmt: skip
    from torch.nn import functional

    heads = q.shape[1]
    by = definition.factors(q, k, q_scale, k_scale, scale)
    values = v.float() if v_scale is None else v.float() * v_scale.expand(v.shape[:2])[..., None, None]
    each = (t.to(dtype).repeat_interleave(heads // t.shape[1], 1) for t in (k, values))
    wide = [(q.float() * by).to(dtype), *each]
    return lambda: functional.scaled_dot_product_attention(*wide, is_causal=causal, scale=1.0)


EAGER: dict[str, Callable[..., Callable[[], Any]]] = {"default": _eager}


# --- the check of the C function without torch ------------------------------------

_HEADS, _KV_HEADS, _QUERIES, _KEYS = 4, 2, 3, 5


def _codes(draw: random.Random, count: int, least: int = 0) -> list[int]:
    """From 2^-6 to 240 of either sign, or from `least` on without."""
    signs = (0,) if least else (0, 128)
    return [draw.choice(signs) | draw.randrange(least or 8, 0x78) for _ in range(count)]


def _row(q: list[int], k: list[int], v: list[int], factor: float) -> tuple[list[float], float]:
    """One query with the keys that it sees: shares times v, and the logarithm of their sum."""
    d = len(q)
    scores = [
        factor * sum(number(a) * number(b) for a, b in zip(q, k[i : i + d], strict=True)) for i in range(0, len(k), d)
    ]
    most = max(scores)
    total = sum(math.exp(s - most) for s in scores)
    shares = [math.exp(s - most) / total for s in scores]
    out = [sum(share * number(v[i * d + c]) for i, share in enumerate(shares)) for c in range(d)]
    return out, most + math.log(total)


def _once(place: Place, dtype: str, d: int, draw: random.Random) -> float:
    """The largest error as a share of what is allowed, of one call. Values are positive, so that results are as exact
    as shares are; rows of 64 go to tensor cores where there are some for e4m3."""
    q = _codes(draw, _HEADS * _QUERIES * d)
    k, v = (_codes(draw, _KV_HEADS * _KEYS * d, least) for least in (0, 0x30))
    of_q, of_k, of_v = (
        rounded("float32", [draw.uniform(0.5, 2) * by for _ in range(heads)])
        for heads, by in ((_HEADS, 0.02), (_KV_HEADS, 0.02), (_KV_HEADS, 0.1))
    )
    out, lse = pack(dtype, [7.0] * len(q)), pack("float32", [7.0] * (_HEADS * _QUERIES))
    given = [(ctypes.c_ubyte * len(codes))(*codes) for codes in (q, k, v)]
    factors = [pack("float32", of) for of in (of_q, of_k, of_v)]
    place.call(
        "kw_attention_fp8", place.device, None, out, lse, *given, *factors, 1, 1, _HEADS,
        _KV_HEADS, _QUERIES, _KEYS, d, d, place.constants[f"KW_{dtype.upper()}"], 1, -1, -1, d**-0.5,
    )  # fmt: skip
    expected: list[float] = []
    logs: list[float] = []
    for row in range(_HEADS * _QUERIES):
        head, seen = row // _QUERIES, row % _QUERIES + 1 + _KEYS - _QUERIES
        kv_head = head // (_HEADS // _KV_HEADS)
        mine = slice(kv_head * _KEYS * d, (kv_head * _KEYS + seen) * d)
        found, log = _row(q[row * d : (row + 1) * d], k[mine], v[mine], of_q[head] * of_k[kv_head] * d**-0.5)
        expected += [value * of_v[kv_head] for value in found]
        logs.append(log)
    what = f"{definition.NAME}, {dtype}, rows of {d}"
    worst = compare(f"{what}, logarithms", unpack("float32", lse), logs, 2.0**-10, 2.0**-8)
    return max(worst, compare(what, unpack(dtype, out), expected, 0.09, 1e-4))


def selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = max(_once(place, dtype, d, draw) for dtype in _HALVES for d in (8, 64))
    return f"two types and rows of 8 and of 64, {100 * worst:.0f} % of the error allowed"
