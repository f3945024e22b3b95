# SPDX-License-Identifier: MIT
"""How attention_decode is tested and timed. A case's shape is [batch, heads, queries, d] of q; its options say more:
kv_heads, rows that a cache has room for, d_v, rows of a page, new rows, rope, and what scores may be."""

from __future__ import annotations

import ctypes
import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack, workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernelwright.ops._selfcheck import Place

# Queries that are turned, and shares, are rounded to the type before they are multiplied.
TOLERANCES = {
    "float64": Tolerance(1e-11, 1e-13, 1e-12),
    "float32": Tolerance(4e-6, 2e-6, 4e-6),
    "float16": Tolerance(2.0**-10, 1e-6, 2.0**-10),
    "bfloat16": Tolerance(2.0**-7, 1e-6, 2.0**-7),
}

_FORMS: tuple[tuple[str, tuple[int, ...], Mapping[str, Any]], ...] = (
    ("default", (1, 4, 1, 64), {"kv_heads": 2, "rows": 70}),
    ("default", (2, 8, 1, 128), {"kv_heads": 1, "rows": 200, "lengths": True}),
    ("default", (2, 4, 3, 128), {"kv_heads": 2, "rows": 300, "causal": True, "lengths": True}),
    ("default", (1, 40, 1, 64), {"kv_heads": 1, "rows": 130, "softcap": 4.0}),
    ("default", (2, 2, 1, 96), {"kv_heads": 2, "rows": 150, "page": 16, "lengths": True}),
    ("default", (2, 4, 2, 128), {"kv_heads": 1, "rows": 70, "page": 1, "lengths": True, "causal": True}),
    ("default", (1, 4, 5, 256), {"kv_heads": 1, "rows": 140, "window": (30, 0)}),
    (
        "default", (2, 4, 1, 192),
        {"kv_heads": 4, "rows": 100, "d_v": 128, "sinks": True, "slopes": True, "lengths": True},
    ),
    ("default", (2, 2, 3, 31), {"kv_heads": 1, "rows": 65, "d_v": 17, "slopes": True, "causal": True}),
    ("default", (3, 4, 1, 64), {"kv_heads": 2, "rows": 90, "index": 5, "lengths": True}),
    ("default", (1, 2, 1, 64), {"kv_heads": 2, "rows": 600, "splits": 3, "sinks": True}),
    ("default", (2, 4, 2, 20), {"kv_heads": 2, "rows": 9, "lengths": True}),
    ("default", (2, 4, 1, 64), {"kv_heads": 2, "rows": 64}),
    ("default", (0, 2, 1, 64), {"kv_heads": 2, "rows": 8}),
    ("default", (2, 2, 1, 64), {"kv_heads": 2, "rows": 0, "sinks": True}),
    ("append", (2, 4, 2, 20), {"kv_heads": 2, "rows": 9, "new": 2, "causal": True, "rope": 6}),
    ("append", (2, 4, 1, 64), {"kv_heads": 2, "rows": 140, "new": 1, "causal": True}),
    ("append", (2, 4, 3, 128), {"kv_heads": 2, "rows": 200, "new": 3, "causal": True, "rope": 64}),
    (
        "append", (2, 4, 2, 96),
        {"kv_heads": 4, "rows": 130, "page": 8, "new": 2, "causal": True, "rope": 20, "interleaved": True},
    ),
    ("append", (1, 2, 1, 256), {"kv_heads": 1, "rows": 90, "page": 1, "new": 5, "rope": 128, "splits": 2}),
    ("append", (2, 2, 2, 40), {"kv_heads": 2, "rows": 66, "new": 7, "window": (3, 0), "rope": 20, "d_v": 24}),
)  # fmt: skip
CASES = tuple(Case(o, shape, dtype, more) for o, shape, more in _FORMS for dtype in ("bfloat16", "float16", "float32"))
ROLES = {"small": (2, 4, 2, 20), "aligned": (2, 4, 1, 64)}
BENCHMARKS = tuple(
    Case("default", (batch, heads, 1, 128), "bfloat16", {"kv_heads": kv_heads, "rows": rows})
    for batch, heads, kv_heads, rows in (
        (1, 32, 8, 8192), (1, 64, 8, 4096), (1, 32, 8, 131072), (16, 32, 8, 8192), (64, 32, 8, 2048)
    )
) + tuple(
    Case("default", (16, 32, 1, 128), "bfloat16", {"kv_heads": 8, "rows": 8192, "page": page, "lengths": True})
    for page in (16, 1)
)  # fmt: skip


def _caches(case: Case, draw: Any, device: Any, generator: Any) -> tuple[Any, Any, Any, Any]:
    """k, v, block_table, batch_index."""
    import torch

    options, (batch, _, _, d) = case.options, case.shape
    kv_heads, rows, page, d_v = (
        options["kv_heads"],
        options["rows"],
        options.get("page"),
        options.get("d_v", case.shape[3]),
    )
    if page is None:
        caches = options.get("index", batch)
        k, v = draw(caches, kv_heads, rows, d), draw(caches, kv_heads, rows, d_v)
        index = None
        if "index" in options:
            index = torch.randperm(caches, generator=generator, device=device)[:batch].to(torch.int32)
        return k, v, None, index
    pages = math.ceil(rows / page)
    order = torch.randperm(batch * pages + 2, generator=generator, device=device)[: batch * pages]
    table = order.to(torch.int32).view(batch, pages)
    return draw(batch * pages + 2, kv_heads, page, d), draw(batch * pages + 2, kv_heads, page, d_v), table, None


def numbers(case: Case) -> tuple[float, bool, int, int, float]:
    options = case.options
    left, right = options.get("window", (-1, -1))
    return case.shape[3] ** -0.5, options.get("causal", False), left, right, options.get("softcap", 0.0)


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    options, (batch, heads, queries, d), dtype = case.options, case.shape, getattr(torch, case.dtype)

    def draw(*shape: int, of: Any = dtype) -> Any:
        return torch.randn(shape, generator=generator, device=device).to(of)

    q = draw(batch, heads, queries, d)
    k, v, table, index = _caches(case, draw, device, generator)
    new, lengths = options.get("new", 0), None
    room = k.shape[2] * (1 if table is None else table.shape[1])
    if options.get("lengths") or new:
        least = min(queries, room - new)
        lengths = torch.randint(least, room - new + 1, (batch,), generator=generator, device=device).to(torch.int32)
    sinks = draw(heads, of=torch.float32) if options.get("sinks") else None
    slopes = torch.rand((heads,), generator=generator, device=device) if options.get("slopes") else None
    last = (*numbers(case), options.get("splits", 0))
    if not new:
        return q, k, v, lengths, table, index, sinks, slopes, *last
    cos = sin = None
    if "rope" in options:
        angles = torch.rand((room, options["rope"]), generator=generator, device=device) * 6.28
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    fresh = draw(batch, k.shape[1], new, d), draw(batch, k.shape[1], new, v.shape[3])
    return (
        q, k, v, *fresh, lengths, table, index, cos, sin, sinks, slopes, *last[:-1], options.get("interleaved", False),
        last[-1],
    )  # fmt: skip


def traffic(case: Case) -> int:
    batch, heads, queries, d = case.shape
    both = d + case.options.get("d_v", d)
    return (case.options["rows"] * case.options["kv_heads"] + heads * queries) * batch * both * SIZES[case.dtype]


def flops(case: Case) -> int:
    batch, heads, queries, d = case.shape
    return 2 * batch * heads * queries * case.options["rows"] * (d + case.options.get("d_v", d))


def _eager(q: Any, k: Any, v: Any, *rest: Any) -> Any:
    """torch has nothing that reads pages or lengths: of a full cache in one piece."""
    from torch.nn import functional

    from kernelwright.ops.attention import _decode_reference as reference

    if any(t is not None for t in rest[:5]):
        return lambda: reference.decode(q, k, v, *rest)
    more: Any = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    return lambda: functional.scaled_dot_product_attention(q, k, v, scale=rest[5], **more)


EAGER: dict[str, Any] = {"default": _eager}


_HEADS, _ROWS, _LENGTH, _D = 4, 9, 7, 16


def _once(place: Place, dtype: str, draw: random.Random) -> float:
    counts = (_HEADS * _D, 2 * _ROWS * _D, 2 * _ROWS * _D)
    q, k, v = (rounded(dtype, [draw.gauss(0, 1) for _ in range(count)]) for count in counts)
    out, lse = pack(dtype, [7.0] * counts[0]), pack("float32", [7.0] * _HEADS)
    lengths, room = (ctypes.c_int32 * 1)(_LENGTH), workspace(4096)
    place.call(
        "kw_attention_decode", place.device, None, out, lse, pack(dtype, q), pack(dtype, k), pack(dtype, v), lengths,
        room, 4096, 1, _HEADS, 2, 1, _ROWS, _D, _D, place.constants[f"KW_{dtype.upper()}"], 1, 2, _D**-0.5,
    )  # fmt: skip
    expected: list[float] = []
    for head in range(_HEADS):
        keys, values = (of[head // 2 * _ROWS * _D :] for of in (k, v))
        row = q[head * _D : (head + 1) * _D]
        scores = [sum(a * b for a, b in zip(row, keys[i * _D :], strict=False)) * _D**-0.5 for i in range(_LENGTH)]
        total = sum(map(math.exp, scores))
        expected += [sum(math.exp(s) * values[i * _D + c] for i, s in enumerate(scores)) / total for c in range(_D)]
    return compare(f"attention_decode, {dtype}", unpack(dtype, out), expected, 2 * TOLERANCES[dtype].relative, 0.02)


def selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = {dtype: _once(place, dtype, draw) for dtype in ("bfloat16", "float16")}
    return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"
