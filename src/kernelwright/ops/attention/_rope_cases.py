# SPDX-License-Identifier: MIT
"""How rope is tested and timed. A case's shape is [batch, heads, rows, d]; its options say more: kv_heads, how many
elements are turned (rotary), whether cos and sin have an entry for each (full), for each row (each: 1 or the batch), or
are float32 (wide), more places than rows (places), positions of first rows or of all, interleaved, inverse."""

from __future__ import annotations

import ctypes
import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops.attention import _rope_reference as reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kernelwright.ops._selfcheck import Place

# Half a unit in the last place of the result, and a little for the arithmetic in float32.
TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-14, 1e-14),
    "float32": Tolerance(1e-6, 1e-7, 1e-6),
    "float16": Tolerance(2.0**-11 * 1.02, 1e-7, 1e-6),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 1e-7, 1e-6),
}

_FORMS: tuple[tuple[tuple[int, ...], Mapping[str, Any]], ...] = (
    ((2, 3, 5, 30), {"kv_heads": 1}),
    ((2, 4, 3, 64), {"kv_heads": 2, "full": True, "each": 2}),
    ((2, 2, 3, 8), {"kv_heads": 2, "rotary": 6, "interleaved": True}),
    ((1, 2, 3, 6), {"kv_heads": 1, "rotary": 4, "positions": "all", "inverse": True}),
    ((2, 5, 7, 128), {"kv_heads": 1, "full": True, "each": 1, "wide": True}),
    ((3, 2, 4, 64), {"kv_heads": 2, "interleaved": True, "positions": "first", "places": 50}),
    ((2, 3, 4, 80), {"kv_heads": 3, "rotary": 32, "positions": "all", "places": 40}),
    ((1, 3, 4, 40), {"kv_heads": 1, "rotary": 32, "full": True, "interleaved": True, "inverse": True}),
    ((1, 2, 9, 17), {"kv_heads": 2, "rotary": 2, "wide": True}),
    ((2, 1, 1, 96), {"kv_heads": 1, "rotary": 48, "interleaved": True, "wide": True}),
    ((1, 3, 2, 1200), {"kv_heads": 1, "rotary": 1100}),
    ((1, 2, 3, 1100), {"kv_heads": 2, "full": True, "interleaved": True}),
    ((3, 32, 70, 64), {"kv_heads": 8, "full": True, "each": 1}),
    ((0, 2, 3, 16), {"kv_heads": 2}),
    ((2, 2, 0, 16), {"kv_heads": 1}),
    ((2, 0, 3, 16), {"kv_heads": 0}),
)  # fmt: skip
_DTYPES = ("float32", "float16", "bfloat16")
_OVERLOADS = ("default", "pair", "x_", "pair_")
ROLES = {"small": (2, 3, 5, 30), "aligned": (2, 4, 3, 64)}
CASES = tuple(
    Case(overload, shape, dtype, more) for overload in _OVERLOADS for shape, more in _FORMS for dtype in _DTYPES
)
# As transformers calls it: [batch, rows, heads * d] seen as heads, and cos and sin of each row, both halves.
BENCHMARKS = tuple(
    Case("pair", shape, dtype, {"kv_heads": kv_heads, "full": True, "each": 1, "seen": True})
    for shape, kv_heads in (
        ((1, 32, 1, 128), 8), ((1, 32, 512, 128), 8), ((4, 32, 4096, 128), 8), ((8, 64, 4096, 128), 64)
    )
    for dtype in ("bfloat16", "float32")
)  # fmt: skip


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    options, (batch, heads, rows, d) = case.options, case.shape
    dtype = getattr(torch, case.dtype)

    def draw(count: int) -> Any:
        if options.get("seen"):
            flat = torch.randn((batch, rows, count * d), generator=generator, device=device).to(dtype)
            return flat.view(batch, rows, count, d).transpose(1, 2)
        return torch.randn((batch, count, rows, d), generator=generator, device=device).to(dtype)

    rotary = options.get("rotary", d)
    first = (options["each"], rows) if "each" in options else (options.get("places", rows + 2),)
    angles = torch.rand((*first, rotary // 2), generator=generator, device=device) * 2 * math.pi
    if options.get("full"):
        angles = angles.repeat_interleave(2, -1) if options.get("interleaved") else torch.cat((angles, angles), -1)
    kind = torch.float32 if options.get("wide") else dtype
    positions = None
    if "positions" in options:  # some that are not there, too
        shape = (batch,) if options["positions"] == "first" else (batch, rows)
        drawn = torch.randint(-2, first[0] + 2, shape, generator=generator, device=device)
        positions = drawn.to(torch.int32)
    q = draw(heads)
    given = (q, draw(options["kv_heads"])) if case.overload.startswith("pair") else (q,)
    last = rotary, options.get("interleaved", False), options.get("inverse", False)
    return *given, angles.cos().to(kind), angles.sin().to(kind), positions, *last


def _elements(case: Case) -> int:
    batch, heads, rows, d = case.shape
    return batch * rows * d * (heads + (case.options["kv_heads"] if case.overload.startswith("pair") else 0))


def traffic(case: Case) -> int:
    """What is turned, read and written, and cos and sin, once."""
    rotary = case.options.get("rotary", case.shape[3])
    tables = 2 * case.shape[2] * (rotary if case.options.get("full") else rotary // 2)
    return (2 * _elements(case) + tables) * SIZES[case.dtype]


def flops(case: Case) -> int:
    return 3 * _elements(case)


# As transformers writes it.


def _turned(x: Any, cos: Any, sin: Any) -> Any:
    import torch

    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def _eager(by_reference: Callable[..., Any], count: int) -> Callable[..., Callable[[], Any]]:
    def bind(*args: Any) -> Callable[[], Any]:
        given, (cos, sin, positions, rotary, interleaved, inverse) = args[:count], args[count:]
        plain = cos.dim() == 3 and cos.shape[-1] == given[0].shape[-1] == rotary and positions is None
        if not plain or interleaved or inverse:
            return lambda: by_reference(*args)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        if count == 1:
            return lambda: _turned(given[0], cos, sin)
        return lambda: tuple(_turned(x, cos, sin) for x in given)

    return bind


EAGER: dict[str, Any] = {"default": _eager(reference.rope, 1), "pair": _eager(reference.pair, 2)}

_BATCH, _HEADS, _ROWS, _PLACES, _D, _ROTARY = 2, 3, 4, 9, 20, 16


def _once(place: Place, dtype: str, draw: random.Random, interleaved: int) -> float:
    count = _BATCH * _HEADS * _ROWS * _D
    q, k = (rounded(dtype, [draw.gauss(0, 1) for _ in range(count)]) for _ in range(2))
    angles = [draw.random() * 6 for _ in range(_PLACES * _ROTARY // 2)]
    cos, sin = (rounded(dtype, [of(angle) for angle in angles]) for of in (math.cos, math.sin))
    found = [pack(dtype, [7.0] * count) for _ in range(2)]
    firsts = [1, 4]
    place.call(
        "kw_rope", place.device, None, *found, *(pack(dtype, values) for values in (q, k, cos, sin)),
        (ctypes.c_int32 * _BATCH)(*firsts), _BATCH, _HEADS, _HEADS, _ROWS, _PLACES, _D, _ROTARY,
        place.constants[f"KW_{dtype.upper()}"], interleaved, 0,
    )  # fmt: skip
    worst = 0.0
    for given, buffer in zip((q, k), found, strict=True):
        expected = list(given)
        for row in range(_BATCH * _HEADS * _ROWS):
            at = (firsts[row // (_HEADS * _ROWS)] + row % _ROWS) * _ROTARY // 2
            for pair in range(_ROTARY // 2):
                first = row * _D + (2 * pair if interleaved else pair)
                second = first + (1 if interleaved else _ROTARY // 2)
                c, s = cos[at + pair], sin[at + pair]
                expected[first] = given[first] * c - given[second] * s
                expected[second] = given[second] * c + given[first] * s
        bound = TOLERANCES[dtype]
        worst = max(worst, compare(f"rope, {dtype}", unpack(dtype, buffer), expected, bound.relative, 1e-5))
    return worst


def selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = {dtype: max(_once(place, dtype, draw, form) for form in (0, 1)) for dtype in _DTYPES}
    return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"
