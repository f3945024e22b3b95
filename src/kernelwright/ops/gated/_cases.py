# SPDX-License-Identifier: MIT
"""How swiglu is tested and timed: cases, tolerances, unavoidable work, the check without torch.

A case's shape is that of the result: a packed argument is twice as wide.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.ops import _sizes as sizes
from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._selfcheck import Place


# Half a unit in the last place of the result and a little for the arithmetic in float32.
TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-14, 1e-14),
    "float32": Tolerance(1e-6, 1e-7, 1e-6),
    "float16": Tolerance(2.0**-11 * 1.02, 1e-7, 1e-6),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 1e-7, 1e-6),
}

_SHAPES = (
    *sizes.rows_of(*sizes.EDGES, *sizes.LONGER, 5, 257, 511, 5120),
    *sizes.DIMENSIONS,
    sizes.NO_COLUMNS,
    (1, 8193),
    (2, 16384),
    sizes.LONG_ROW,
    sizes.MANY_ROWS,
    (257, 96),
)
_DTYPES = sizes.FLOATS
_OVERLOADS = ("default", "packed", "backward", "packed_backward")

CASES = tuple(Case(overload, shape, dtype) for overload in _OVERLOADS for shape in _SHAPES for dtype in _DTYPES)
BENCHMARKS = tuple(
    Case(overload, shape, dtype)
    for overload in _OVERLOADS
    for shape in ((1, 4096), (128, 4096), (4096, 4096), (8192, 14336), (16384, 8192), (65536, 1024), (4096, 65536))
    for dtype in _DTYPES
)


def _backward(case: Case) -> bool:
    return case.overload.endswith("backward")


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    """A gate is three times as wide as the normal distribution: so both ends of the sigmoid are reached."""
    import torch

    def draw() -> Any:
        return torch.randn(case.shape, generator=generator, device=device)

    parts = (3 * draw(), draw())
    inputs = (torch.cat(parts, -1),) if "packed" in case.overload else parts
    dtype = getattr(torch, case.dtype)
    return tuple(t.to(dtype) for t in ((draw(), *inputs) if _backward(case) else inputs))


def traffic(case: Case) -> int:
    """gate, up and y; backward: grad, gate, up and two derivatives."""
    return math.prod(case.shape) * SIZES[case.dtype] * (5 if _backward(case) else 3)


def flops(case: Case) -> int:
    """Each function of one number counts as one: exp, a sum, a reciprocal, two products; backward five more."""
    return math.prod(case.shape) * (10 if _backward(case) else 5)


# What one writes in torch today, for benchmarks to compare with (Op.eager).


def _eager(gate: Any, up: Any) -> Callable[[], Any]:
    from torch.nn import functional

    return lambda: functional.silu(gate) * up


def _eager_packed(x: Any) -> Callable[[], Any]:
    from torch.nn import functional

    def call() -> Any:
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up

    return call


def _eager_gradient(forward: Callable[..., Callable[[], Any]]) -> Callable[..., Callable[[], Any]]:
    """Autograd's, of a forward pass that is not timed."""

    def bind(grad: Any, *inputs: Any) -> Callable[[], Any]:
        import torch

        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        with torch.enable_grad():
            y = forward(*leaves)()

        def call() -> Any:
            found = torch.autograd.grad(y, leaves, grad, retain_graph=True)
            return found if len(found) > 1 else found[0]

        return call

    return bind


EAGER: dict[str, Callable[..., Callable[[], Any]]] = {
    "default": _eager,
    "packed": _eager_packed,
    "backward": _eager_gradient(_eager),
    "packed_backward": _eager_gradient(_eager_packed),
}

_ROWS, _WIDTH, _STRIDE, _SENTINEL = 3, 37, 41, 7.0


def _expected(dy: list[float], gate: list[float], up: list[float]) -> tuple[list[float], ...]:
    """y, dgate and dup over padded rows; what lies between rows must stay the sentinel."""
    results = tuple([_SENTINEL] * (_ROWS * _STRIDE) for _ in range(3))
    for i in (row * _STRIDE + column for row in range(_ROWS) for column in range(_WIDTH)):
        s = 1 / (1 + math.exp(-gate[i]))
        values = (gate[i] * s * up[i], dy[i] * up[i] * s * (1 + gate[i] * (1 - s)), dy[i] * gate[i] * s)
        for result, value in zip(results, values, strict=True):
            result[i] = value
    return results


def _once(place: Place, dtype: str, draw: random.Random) -> float:
    dy, gate, up = (rounded(dtype, [draw.gauss(0, 2) for _ in range(_ROWS * _STRIDE)]) for _ in range(3))
    found = [pack(dtype, [_SENTINEL] * (_ROWS * _STRIDE)) for _ in range(3)]
    inputs = [part for values in (dy, gate, up) for part in (pack(dtype, values), _STRIDE)]
    y, *derivatives = ((buffer, _STRIDE) for buffer in found)
    where = place.device, None
    shape = _ROWS, _WIDTH, place.constants[f"KW_{dtype.upper()}"]
    place.call("kw_swiglu", *where, *y, *inputs[2:], *shape)
    place.call("kw_swiglu_backward", *where, *derivatives[0], *derivatives[1], *inputs, *shape)
    bound, terms = TOLERANCES[dtype], {"dgate": 64.0}  # about the largest |dy * up| that is drawn
    return max(
        compare(
            f"swiglu, {dtype}, {what}", unpack(dtype, buffer), expected,
            bound.relative, bound.absolute + bound.terms * terms.get(what, 0.0),
        )
        for what, buffer, expected in zip(("y", "dgate", "dup"), found, _expected(dy, gate, up), strict=True)
    )  # fmt: skip


def selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = {dtype: _once(place, dtype, draw) for dtype in _DTYPES}
    return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"
