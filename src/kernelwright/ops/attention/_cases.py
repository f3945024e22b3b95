# SPDX-License-Identifier: MIT
"""How attention is tested and timed. A case's shape is [batch, heads, queries, d] of q; its options say the rest:
kv_heads, keys, d_v, causal, window, softcap, and which of mask, bias, sinks and slopes there are."""

from __future__ import annotations

import ctypes
import math
import random
import struct
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kernelwright.ops._selfcheck import Place

# Probabilities are rounded to the type before they multiply v, and in a backward pass the scores' derivatives are.
TOLERANCES = {
    "float64": Tolerance(1e-11, 1e-13, 1e-12),
    "float32": Tolerance(4e-6, 1e-6, 4e-6),
    "float16": Tolerance(2.0**-10, 1e-6, 2.0**-10),
    "bfloat16": Tolerance(2.0**-7, 1e-6, 2.0**-7),
}
_HALVES = ("bfloat16", "float16")


def _case(shape: tuple[int, ...], dtype: str, overload: str = "default", **options: Any) -> Case:
    return Case(overload, shape, dtype, options)


# Shapes of q, and options.
_FORMS: tuple[tuple[tuple[int, ...], Mapping[str, Any]], ...] = (
    ((1, 1, 1, 64), {"keys": 1}), ((1, 2, 5, 64), {"keys": 5, "causal": True}),
    ((2, 4, 33, 64), {"keys": 70, "kv_heads": 2}), ((1, 2, 130, 64), {"keys": 130, "causal": True}),
    ((1, 1, 200, 128), {"keys": 200, "causal": True}), ((1, 4, 65, 128), {"keys": 129, "kv_heads": 1}),
    ((1, 2, 70, 96), {"keys": 133, "causal": True, "kv_heads": 1}),
    ((1, 1, 66, 192), {"keys": 140, "d_v": 128, "causal": True}), ((1, 1, 64, 256), {"keys": 80}),
    ((1, 2, 129, 256), {"keys": 129, "causal": True, "kv_heads": 1}), ((1, 2, 40, 72), {"keys": 50, "d_v": 40}),
    ((1, 1, 30, 31), {"keys": 45, "d_v": 17}), ((0, 2, 8, 64), {"keys": 8}), ((1, 2, 0, 64), {"keys": 8}),
    ((2, 2, 8, 64), {"keys": 0, "sinks": True}), ((1, 2, 150, 64), {"keys": 150, "window": (20, 10)}),
    ((1, 2, 140, 128), {"keys": 200, "window": (30, -1), "causal": True}),
    ((1, 2, 100, 64), {"keys": 100, "softcap": 5.0, "causal": True}),
    ((1, 4, 70, 64), {"keys": 90, "sinks": True, "causal": True}),
    ((2, 2, 70, 64), {"keys": 90, "slopes": True, "causal": True}), ((2, 2, 66, 64), {"keys": 67, "mask": True}),
    ((2, 2, 66, 128), {"keys": 131, "bias": True}), ((1, 2, 129, 64), {"keys": 40, "causal": True, "sinks": True}),
    ((2, 4, 66, 64), {
        "keys": 90, "kv_heads": 2, "mask": True, "bias": True, "sinks": True, "slopes": True, "softcap": 3.0,
    }),
)  # fmt: skip


_TYPES = (*_HALVES, "float32")
_FEW: tuple[Mapping[str, Any], ...] = (
    {"keys": 5, "kv_heads": 1, "causal": True, "sinks": True}, {"keys": 4, "d_v": 3, "softcap": 2.0, "bias": True},
    {"keys": 3, "slopes": True, "mask": True, "window": (1, 1)},
)  # fmt: skip
ROLES = {"small": (2, 4, 5, 19), "aligned": (1, 2, 16, 64)}


def _cases(overload: str) -> tuple[Case, ...]:
    return (
        *(_case(shape, dtype, overload, **options) for shape, options in _FORMS for dtype in _HALVES),
        *(_case(ROLES["small"], dtype, overload, keys=7, kv_heads=2, causal=True, sinks=True) for dtype in _TYPES),
        *(_case(ROLES["aligned"], dtype, overload, keys=16) for dtype in _TYPES),
        *(_case((1, 2, 3, 4), dtype, overload, **more) for more in _FEW for dtype in _TYPES),
    )


CASES = _cases("default") + _cases("backward")
BENCHMARKS = tuple(
    _case(shape, "bfloat16", overload, keys=shape[2], causal=causal, **more)
    for overload in ("default", "backward")
    for shape, causal, more in (
        ((4, 32, 4096, 128), True, {}), ((4, 32, 4096, 128), False, {}), ((4, 32, 4096, 64), True, {}),
        ((4, 32, 4096, 64), False, {}), ((1, 32, 16384, 128), True, {"kv_heads": 8}),
        ((16, 32, 1024, 128), True, {}), ((2, 16, 4096, 256), True, {}), ((1, 32, 256, 64), True, {}),
    )
)  # fmt: skip


def numbers(case: Case) -> tuple[float, bool, int, int, float]:
    options = case.options
    left, right = options.get("window", (-1, -1))
    return case.shape[3] ** -0.5, options.get("causal", False), left, right, options.get("softcap", 0.0)


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    options, (batch, heads, queries, d), dtype = case.options, case.shape, getattr(torch, case.dtype)
    kv_heads, keys, d_v = options.get("kv_heads", heads), options["keys"], options.get("d_v", d)

    def draw(*shape: int, of: Any = dtype) -> Any:
        return torch.randn(shape, generator=generator, device=device).to(of)

    q, k, v = draw(batch, heads, queries, d), draw(batch, kv_heads, keys, d), draw(batch, kv_heads, keys, d_v)
    mask = bias = sinks = slopes = None
    if options.get("mask"):
        mask = torch.rand((batch, 1, queries, keys), generator=generator, device=device) < 0.6
        mask[..., :1] = True
    if options.get("bias"):
        bias = draw(1, heads, queries, keys)
    if options.get("sinks"):
        sinks = draw(heads, of=torch.float32)
    if options.get("slopes"):
        slopes = torch.rand((heads,), generator=generator, device=device)
    if case.overload == "default":
        return q, k, v, mask, bias, sinks, slopes, *numbers(case), False
    from kernelwright.ops.attention import _reference as reference

    given = q, k, v, mask, bias, sinks, slopes, *numbers(case), False
    if queries * keys * batch * heads > 1 << 24:  # to be timed: whatever the numbers are
        out, lse = draw(batch, heads, queries, d_v), torch.zeros(q.shape[:3], device=device)
    else:
        out, lse = reference.attention(*given)
    return draw(batch, heads, queries, d_v), q, k, v, out, lse, *given[3:]


def _pairs(case: Case) -> int:
    """Of queries and keys that see each other."""
    queries, keys = case.shape[2], case.options["keys"]
    whole = queries * keys
    if case.options.get("causal") and queries <= keys:
        whole -= queries * (queries - 1) // 2
    return whole * case.shape[0] * case.shape[1]


def traffic(case: Case) -> int:
    batch, heads, queries, d = case.shape
    options = case.options
    kv = batch * options.get("kv_heads", heads) * options["keys"] * (d + options.get("d_v", d))
    of_q = batch * heads * queries * (d + options.get("d_v", d))
    return (kv + of_q) * SIZES[case.dtype] * (1 if case.overload == "default" else 2)


def flops(case: Case) -> int:
    d = case.shape[3]
    once = 2 * _pairs(case) * (d + case.options.get("d_v", d))
    return once if case.overload == "default" else once * 5 // 2


def _eager(q: Any, k: Any, v: Any, mask: Any, bias: Any, sinks: Any, slopes: Any, *numbers: Any) -> Callable[[], Any]:  # noqa: ARG001
    from torch.nn import functional

    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=numbers[1])


EAGER: dict[str, Callable[..., Callable[[], Any]]] = {"default": _eager}

_HEADS, _QUERIES, _KEYS, _D = 2, 3, 5, 8


def _row(q: list[float], k: list[float], v: list[float], seen: int, sink: float) -> list[float]:
    """One query of `_D` numbers, which sees the first keys."""
    scores = [sum(a * b for a, b in zip(q, k[i * _D :], strict=False)) * _D**-0.5 for i in range(seen)]
    total = math.exp(sink) + sum(map(math.exp, scores))
    return [sum(math.exp(s) * v[i * _D + c] for i, s in enumerate(scores)) / total for c in range(_D)]


def _beside(rows: list[float]) -> list[float]:
    """[heads, queries, d] as [queries, heads, d]."""
    starts = [(head * _QUERIES + query) * _D for query in range(_QUERIES) for head in range(_HEADS)]
    return [value for start in starts for value in rows[start : start + _D]]


def _starts(count: int) -> Any:
    raw = struct.pack("=2i", 0, count)
    return ctypes.create_string_buffer(raw, len(raw))


def once(place: Place, dtype: str, draw: random.Random, *, sequences: bool = False) -> float:
    """The largest error as a share of what is allowed, of one call of the C function: for batches, or sequences."""
    counts = (_HEADS * _QUERIES * _D, _KEYS * _D, _KEYS * _D)
    q, k, v = (rounded(dtype, [draw.gauss(0, 1) for _ in range(count)]) for count in counts)
    sinks = rounded("float32", [draw.gauss(0, 1) for _ in range(_HEADS)])
    out, lse = pack(dtype, [7.0] * counts[0]), pack("float32", [7.0] * (_HEADS * _QUERIES))
    given = [place.device, None, out, lse, pack(dtype, q), pack(dtype, k), pack(dtype, v)]
    sizes = [1, _HEADS, 1, _QUERIES, _KEYS]
    if sequences:  # of one: its heads lie beside each other
        given[4] = pack(dtype, _beside(q))
        given += [_starts(_QUERIES), _starts(_KEYS)]
        sizes += [_QUERIES, _KEYS]
    name = "kw_attention_varlen" if sequences else "kw_attention"
    place.call(
        name, *given, pack("float32", sinks), *sizes, _D, _D, place.constants[f"KW_{dtype.upper()}"], 1, -1, -1,
        _D**-0.5, 0.0,
    )  # fmt: skip
    expected: list[float] = []
    for row in range(_HEADS * _QUERIES):
        seen = row % _QUERIES + 1 + _KEYS - _QUERIES
        expected += _row(q[row * _D : (row + 1) * _D], k, v, seen, sinks[row // _QUERIES])
    if sequences:
        expected = _beside(expected)
    return compare(f"{name[3:]}, {dtype}", unpack(dtype, out), expected, 2 * TOLERANCES[dtype].relative, 0.02)


def selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = {dtype: once(place, dtype, draw) for dtype in _HALVES}
    return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"
