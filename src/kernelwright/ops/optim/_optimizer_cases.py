# SPDX-License-Identifier: MIT
"""How the optimizers' operators are tested and timed: cases, tolerances, unavoidable work, the check without torch."""

from __future__ import annotations

import ctypes
import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops.optim import _blockwise as blockwise
from kernelwright.ops.optim import _maps as maps
from kernelwright.ops.optim._optimizer import BLOCK, RULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.ops._selfcheck import Place

# A parameter is rounded to its type; a code may be its neighbour, where the rounding of a state decides.
TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-14),
    "float32": Tolerance(4e-6, 4e-6),
    "float16": Tolerance(2.0**-11 * 1.02, 4e-6),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 4e-6),
    "uint8": Tolerance(0.0, 1.0),
}
_DTYPES = ("float32", "float16", "bfloat16")
_COLS = (1, 2, 7, 8, 31, 33, 64, 100, 127, 129, 256, 257, 511, 1000, 2048, 2051)
_SHAPES = (*((3, cols) for cols in _COLS), (64,), (0, 64), (4, 0), (2, 3, 40), (2, 1, 3, 1, 24), (1, 8193))
_STEPS = (1, 2, 7, 1000)


def _overload(rule: str) -> str:
    return "one_state" if RULES[rule] == 1 else "default"


def _cases() -> tuple[Case, ...]:
    """Each rule with each type, over the shapes; with all of them where a record needs them."""
    found = {}
    for number, shape in enumerate(_SHAPES):
        for place, rule in enumerate(RULES):
            options = {
                "rule": rule,
                "step": _STEPS[(number + place) % len(_STEPS)],
                "decay": (number + place) % 2 * 0.1,
            }
            one = _DTYPES[(number + place) % 3]
            for dtype in _DTYPES if shape == (3, 64) else (one,):
                case = Case(_overload(rule), shape, dtype, options)
                found[str(case)] = case
    return tuple(found.values())


CASES = _cases()
BENCHMARKS = tuple(
    Case(_overload(rule), (count,), dtype, {"rule": rule, "step": 7, "decay": 0.1})
    for count, dtype, rules in (
        (1 << 28, "bfloat16", tuple(RULES)), (1 << 28, "float32", ("adam",)), (1 << 24, "bfloat16", ("adam", "lion")),
        (100_000, "bfloat16", ("adam",)),
    )
    for rule in rules
)  # fmt: skip


def _numbers(case: Case) -> tuple[Any, ...]:
    return (case.options["rule"], case.options["step"], 0.01, 0.9, 0.99, 0.999, 2.0, 1e-6, case.options["decay"], 0.5)


def _drawn(case: Case, device: Any, generator: Any) -> tuple[Any, Any]:
    import torch

    def draw() -> Any:
        return torch.randn(case.shape, generator=generator, device=device).to(getattr(torch, case.dtype))

    return draw(), draw()


def make_32bit(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    """A mean may have either sign; one of squares not, which is the first of rmsprop and adagrad."""
    import torch

    rule, squares = case.options["rule"], case.options["rule"] in ("rmsprop", "adagrad")
    shape = (2, *case.shape) if rule == "ademamix" else case.shape
    first = torch.randn(shape, generator=generator, device=device)
    states = [0.1 + first.abs() if squares else first]
    if RULES[rule] > 1:
        states.append(0.1 + torch.rand(case.shape, generator=generator, device=device))
    return (*_drawn(case, device, generator), *states, *_numbers(case))


def make_8bit(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    """Codes of the smaller half of a map are left out where they are of squares: too small a root says little."""
    import torch

    rule, count = case.options["rule"], math.prod(case.shape)
    squares = rule in ("rmsprop", "adagrad")
    number = blockwise.blocks(count, BLOCK)

    def codes(shape: Sequence[int], least: int) -> Any:
        return torch.randint(least, 256, tuple(shape), generator=generator, device=device, dtype=torch.uint8)

    def scales(*shape: int) -> Any:
        return 0.5 + torch.rand(shape, generator=generator, device=device)

    twice = (2,) if rule == "ademamix" else ()
    signed, unsigned = (maps.create_dynamic_map(sign).to(device) for sign in (True, False))
    first = codes((*twice, *case.shape), 200 if squares else 0)
    drawn, numbers = _drawn(case, device, generator), _numbers(case)
    if RULES[rule] == 1:
        return (*drawn, first, scales(number), signed, *numbers)
    second = codes(case.shape, 128)
    return (*drawn, first, second, scales(*twice, number), scales(number), signed, unsigned, *numbers)


# --- unavoidable work -------------------------------------------------------------


def _traffic(case: Case, state: float) -> int:
    """The gradient once, the parameter and the states twice."""
    count = math.prod(case.shape)
    return count * 3 * SIZES[case.dtype] + round(count * RULES[case.options["rule"]] * 2 * state)


def traffic_32bit(case: Case) -> int:
    return _traffic(case, 4)


def traffic_8bit(case: Case) -> int:
    return _traffic(case, 1 + 4 / BLOCK)


def flops(case: Case) -> int:
    return math.prod(case.shape) * (6 + 5 * RULES[case.options["rule"]])


# --- the checks of the C functions without torch ------------------------------------

_COUNT, _LR, _BETA1, _BETA2, _EPS, _STEP = 150, 0.01, 0.9, 0.99, 1e-6, 3


class _Numbers(ctypes.Structure):
    """kw_optimizer, without the library's own description, which a self-check does not have."""

    _fields_ = (
        *((name, ctypes.c_double) for name in (
            "lr", "beta1", "beta2", "beta3", "alpha", "eps", "weight_decay", "grad_scale",
        )),
        ("step", ctypes.c_int64), ("rule", ctypes.c_int32), ("reserved", ctypes.c_int32),
    )  # fmt: skip


def _adam(w: float, g: float, m: float, v: float) -> tuple[float, float, float]:
    m, v = _BETA1 * m + (1 - _BETA1) * g, _BETA2 * v + (1 - _BETA2) * g * g
    under = math.sqrt(v / (1 - _BETA2**_STEP)) + _EPS
    return w - _LR * m / (1 - _BETA1**_STEP) / under, m, v


def _optimizer(place: Place) -> Any:
    return _Numbers(_LR, _BETA1, _BETA2, 0, 0, _EPS, 0, 1, _STEP, place.constants["KW_ADAM"], 0)


def _check(place: Place, dtype: str, coded: bool) -> float:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    w, g = (rounded(dtype, [draw.gauss(0, 1) for _ in range(_COUNT)]) for _ in range(2))
    number, numbers = place.constants[f"KW_{dtype.upper()}"], _optimizer(place)
    table = rounded("float32", [math.copysign((i / 128) ** 2, i) for i in range(-127, 129)])
    if coded:
        codes = [[draw.randrange(128, 256) for _ in range(_COUNT)] for _ in range(2)]
        m, v = ([table[code] * 0.75 for code in each] for each in codes)
        held = [ctypes.create_string_buffer(bytes(each), _COUNT) for each in codes]
        scales = [pack("float32", [0.75]) for _ in range(2)]
        more = (*scales, pack("float32", table), pack("float32", table))
    else:
        m, v = rounded("float32", [draw.gauss(0, 1) for _ in w]), rounded("float32", [draw.random() for _ in w])
        held, more = [pack("float32", m), pack("float32", v)], ()
    param = pack(dtype, w)
    name = "optimizer_update_8bit_blockwise" if coded else "optimizer_update_32bit"
    given = param, pack(dtype, g), *held, *more, ctypes.addressof(numbers)
    place.call(f"kw_{name}", place.device, None, *given, _COUNT, number)
    expected = list(zip(*map(_adam, w, g, m, v), strict=True))
    bound = TOLERANCES[dtype]
    worst = compare(f"{name}, {dtype}, param", unpack(dtype, param), expected[0], bound.relative, bound.absolute)
    for which, state in enumerate(("state1", "state2")):
        if coded:
            scale = unpack("float32", scales[which])[0]
            found, width = [table[code] * scale for code in held[which].raw], scale / 128
        else:
            found, width = unpack("float32", held[which]), 4e-6
        worst = max(worst, compare(f"{name}, {dtype}, {state}", found, expected[1 + which], 4e-6, width))
    return worst


def _said(place: Place, coded: bool) -> str:
    return f"three types, {100 * max(_check(place, dtype, coded) for dtype in _DTYPES):.0f} % of the error allowed"


def selfcheck_32bit(place: Place) -> str:
    return _said(place, coded=False)


def selfcheck_8bit(place: Place) -> str:
    return _said(place, coded=True)
