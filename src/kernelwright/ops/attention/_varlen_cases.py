# SPDX-License-Identifier: MIT
"""How attention of sequences is tested and timed. A case's shape is that of q; `lengths` are its sequences' queries,
`keys` their keys (the same without), `more` rows are of no sequence."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case
from kernelwright.ops.attention import _cases as dense

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernelwright.ops._selfcheck import Place

_HALVES = ("bfloat16", "float16")


def _case(heads: int, d: int, lengths: tuple[int, ...], dtype: str, overload: str = "default", **options: Any) -> Case:
    return Case(overload, (sum(lengths), heads, d), dtype, {"lengths": lengths, **options})


_FORMS: tuple[tuple[int, int, tuple[int, ...], Mapping[str, Any]], ...] = (
    (2, 64, (1, 0, 5), {"causal": True}), (2, 64, (33, 70, 20), {"causal": True, "kv_heads": 1}),
    (1, 128, (130, 3), {}),
    (2, 64, (5, 9), {"keys": (40, 9), "causal": True}), (1, 128, (20, 4), {"keys": (0, 150), "sinks": True}),
    (2, 64, (90, 40), {"window": (30, 0)}), (2, 64, (50, 30), {"slopes": True, "softcap": 4.0, "causal": True}),
    (1, 256, (70, 17), {"causal": True}), (2, 96, (10, 11, 12), {"causal": True}), (1, 31, (12, 5), {"d_v": 9}),
    (1, 64, (), {}),
)  # fmt: skip

CASES = tuple(
    _case(heads, d, lengths, dtype, overload, **options)
    for overload in ("default", "backward")
    for heads, d, lengths, options in _FORMS
    for dtype in _HALVES
) + tuple(
    _case(heads, d, lengths, dtype, overload, causal=True, kv_heads=1, sinks=d > 32)
    for overload in ("default", "backward")
    for heads, d, lengths in ((2, 19, (5, 3)), (2, 64, (16, 8)), (2, 4, (3, 1)), (2, 5, (2, 2)))
    for dtype in (*_HALVES, "float32")
)
ROLES = {"small": (8, 2, 19), "aligned": (24, 2, 64)}
BENCHMARKS = tuple(
    _case(32, d, lengths, "bfloat16", overload, causal=True)
    for overload in ("default", "backward")
    for d, lengths in ((128, (4096,) * 4), (128, (512, 1024, 2048, 4096, 8192, 512)), (64, (100, 156)))
)


def _keys(case: Case) -> tuple[int, ...]:
    found: tuple[int, ...] = case.options.get("keys", case.options["lengths"])
    return found


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    options, (total, heads, d), dtype = case.options, case.shape, getattr(torch, case.dtype)
    kv_heads, d_v, lengths, keys = (
        options.get("kv_heads", heads),
        options.get("d_v", d),
        options["lengths"],
        _keys(case),
    )

    def draw(*shape: int, of: Any = dtype) -> Any:
        return torch.randn(shape, generator=generator, device=device).to(of)

    def starts(sizes: tuple[int, ...]) -> Any:
        return torch.tensor([sum(sizes[:i]) for i in range(len(sizes) + 1)], dtype=torch.int32, device=device)

    q, k, v = draw(total, heads, d), draw(sum(keys), kv_heads, d), draw(sum(keys), kv_heads, d_v)
    sinks = draw(heads, of=torch.float32) if options.get("sinks") else None
    slopes = torch.rand((len(lengths), heads), generator=generator, device=device) if options.get("slopes") else None
    left, right = options.get("window", (-1, -1))
    numbers = d**-0.5, options.get("causal", False), left, right, options.get("softcap", 0.0), False
    rest = starts(lengths), starts(keys), sinks, slopes, max(lengths, default=0), max(keys, default=0), *numbers
    if case.overload == "default":
        return q, k, v, *rest
    from kernelwright.ops.attention import _varlen as varlen

    if total > 4096:  # to be timed: whatever the numbers are
        out, lse = draw(total, heads, d_v), torch.zeros((heads, total), device=device)
    else:
        out, lse = varlen.attention(q, k, v, *rest)
    return draw(total, heads, d_v), q, k, v, out, lse, *rest


def traffic(case: Case) -> int:
    total, heads, d = case.shape
    both, kv_heads = d + case.options.get("d_v", d), case.options.get("kv_heads", heads)
    once = (total * heads + sum(_keys(case)) * kv_heads) * both * SIZES[case.dtype]
    return once if case.overload == "default" else 2 * once


def flops(case: Case) -> int:
    pairs = sum(
        q * k - (q * (q - 1) // 2 if case.options.get("causal") and q <= k else 0)
        for q, k in zip(case.options["lengths"], _keys(case), strict=True)
    )
    once = 2 * pairs * case.shape[1] * (case.shape[2] + case.options.get("d_v", case.shape[2]))
    return once if case.overload == "default" else once * 5 // 2


def selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = {dtype: dense.once(place, dtype, draw, sequences=True) for dtype in _HALVES}
    return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"
