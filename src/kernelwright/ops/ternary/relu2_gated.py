# SPDX-License-Identifier: MIT
"""The gated activation relu(gate)^2 * up, forward and backward."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._record import SIZES, Backward, Case, Op, Overload
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, require_dtype, require_like, rows, settled
from kernelwright.ops.ternary import _codes as codes
from kernelwright.ops.ternary._cases import DTYPES, TOLERANCES

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library
    from kernelwright.ops._selfcheck import Place

_NAME = "relu2_gated"


def relu2_gated(gate: Tensor, up: Tensor) -> Tensor:
    """The gated activation of BitNet's feed-forward part: `y = relu(gate)^2 * up`.

    gate, up  float32, float16 or bfloat16, of one shape, on the CPU or a GPU; computed in float32. float64 works too,
              for checking gradients. Rows (the last dimension) that do not lie evenly in memory are copied first.

    Returns y, of their dtype and shape, contiguous. Differentiable.

    >>> y = kernelwright.relu2_gated(gate, up)
    """
    found: Tensor = calls.relu2_gated.default(gate, up)
    return found


def _check(gate: Tensor, up: Tensor) -> None:
    if not gate.shape:
        raise InvalidArgument(f"{_NAME}: gate has shape (), but must have at least one dimension")
    require_dtype(_NAME, "gate", gate, codes.dtypes(codes.FLOATS))
    require_dtype(_NAME, "up", up, (gate.dtype,))
    require_like(_NAME, "up", up, "gate", gate, gate.shape)


def _empty_like(tensor: Tensor) -> Tensor:
    import torch

    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _fake(gate: Tensor, up: Tensor) -> Tensor:
    _check(gate, up)
    return _empty_like(gate)


def _fake_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    _check(gate, up)
    require_dtype(_NAME, "grad", grad, (gate.dtype,))
    require_like(_NAME, "grad", grad, "gate", gate, gate.shape)
    return _empty_like(gate), _empty_like(gate)


# --- in plain torch -----------------------------------------------------------------


def _wide(tensor: Tensor) -> Tensor:
    import torch

    return tensor if tensor.dtype is torch.float64 else tensor.float()


def _forward(gate: Tensor, up: Tensor) -> Tensor:
    return settled(_wide(gate).relu().square() * _wide(up), gate.dtype)


def _backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    g, r, u = _wide(grad), _wide(gate).relu(), _wide(up)
    return settled(2 * r * (g * u), gate.dtype), settled(g * r.square(), gate.dtype)


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:  # noqa: ARG001 - torch passes it by name
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = calls.relu2_gated.backward(grad, *ctx.saved_tensors)
    return found


def _second(ctx: Any, to_gate: Tensor, to_up: Tensor) -> tuple[Tensor, ...]:
    grad, gate, up = ctx.saved_tensors
    v, w, g, a, u = map(_wide, (to_gate, to_up, grad, gate, up))
    r = a.relu()
    by_gate = 2 * (v * g * u * (a > 0) + w * g * r)
    return (2 * v * r * u + w * r.square()).to(grad.dtype), by_gate.to(gate.dtype), (2 * v * r * g).to(up.dtype)


# --- the library ----------------------------------------------------------------------


def _caller(library: Library, key: str, function: str) -> Callable[..., None]:
    numbers = dtype_codes(library, codes.FLOATS[:3])
    place, call = placement(library, key), library.functions["kw_call"]
    pack_call, address = library.packer(function)

    def run(results: tuple[Tensor, ...], inputs: tuple[Tensor, ...]) -> None:
        cols = inputs[0].shape[-1]
        held = [rows(each) for each in inputs]
        device, stream = place(held[0][0])
        given = [part for each in results for part in (each.data_ptr(), cols)]
        given += [part for each, stride in held for part in (each.data_ptr(), stride)]
        count = inputs[0].numel() // cols
        status = call(pack_call(address, device, stream, *given, count, cols, numbers[inputs[0].dtype]))
        if status:
            library.fail(function, status)

    return run


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    import torch

    call = _caller(library, key, "kw_relu2_gated")

    def run(gate: Tensor, up: Tensor) -> Tensor:
        y = _fake(gate, up)
        refuse_freed(_NAME, gate=gate, up=up)
        if gate.dtype == torch.float64:
            return _forward(gate, up)
        if y.numel():
            call((y,), (gate, up))
        return y

    return run


def _bind_backward(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    import torch

    call = _caller(library, key, "kw_relu2_gated_backward")

    def run(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        found = _fake_backward(grad, gate, up)
        refuse_freed(_NAME, grad=grad, gate=gate, up=up)
        if gate.dtype == torch.float64:
            return _backward(grad, gate, up)
        if gate.numel():
            call(found, (grad, gate, up))
        return found

    return run


# --- cases ------------------------------------------------------------------------------

_SHAPES = (
    *((3, cols) for cols in (1, 2, 3, 7, 8, 16, 33, 64, 100, 127, 1000, 1024, 4096)),
    (64,), (0, 64), (4, 0), (2, 0, 16), (2, 3, 40), (2, 1, 3, 1, 24), (1, 65537), (300, 1000),
)  # fmt: skip
_CASES = tuple(
    Case(overload, shape, dtype) for overload in ("default", "backward") for shape in _SHAPES for dtype in DTYPES
)
_BENCHMARKS = tuple(
    Case(overload, shape, dtype)
    for overload in ("default", "backward")
    for shape in ((1, 6912), (128, 6912), (4096, 6912), (16384, 8192))
    for dtype in DTYPES
)


def _make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    count = 3 if case.overload == "backward" else 2
    drawn = (torch.randn(case.shape, generator=generator, device=device) for _ in range(count))
    return tuple(each.to(getattr(torch, case.dtype)) for each in drawn)


def _eager(gate: Any, up: Any) -> Callable[[], Any]:
    from torch.nn import functional

    return lambda: functional.relu(gate).square() * up


def _eager_backward(grad: Any, gate: Any, up: Any) -> Callable[[], Any]:
    import torch

    leaves = [tensor.detach().requires_grad_() for tensor in (gate, up)]
    with torch.enable_grad():
        y = _eager(*leaves)()
    return lambda: torch.autograd.grad(y, leaves, grad, retain_graph=True)


def _once(place: Place, dtype: str, draw: random.Random) -> float:
    count = 37
    dy, gate, up = (rounded(dtype, [draw.gauss(0, 1) for _ in range(count)]) for _ in range(3))
    y, dgate, dup = (pack(dtype, [7.0] * count) for _ in range(3))
    given = [part for each in (dy, gate, up) for part in (pack(dtype, each), count)]
    rest = 1, count, place.constants[f"KW_{dtype.upper()}"]
    place.call("kw_relu2_gated", place.device, None, y, count, *given[2:], *rest)
    place.call("kw_relu2_gated_backward", place.device, None, dgate, count, dup, count, *given, *rest)
    expected = {
        "y": (y, [max(a, 0) ** 2 * b for a, b in zip(gate, up, strict=True)]),
        "dgate": (dgate, [2 * max(a, 0) * b * d for a, b, d in zip(gate, up, dy, strict=True)]),
        "dup": (dup, [max(a, 0) ** 2 * d for a, d in zip(gate, dy, strict=True)]),
    }
    bound = TOLERANCES[dtype].relative
    return max(
        compare(f"{_NAME}, {dtype}, {what}", unpack(dtype, found), wanted, bound, 1e-6)
        for what, (found, wanted) in expected.items()
    )


def _selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = {dtype: _once(place, dtype, draw) for dtype in DTYPES}
    return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"


OP = Op(
    name=_NAME,
    doc="gated activation relu(gate)^2 * up",
    function=relu2_gated,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor gate, Tensor up) -> Tensor",
            rows=("gate", "up"),
            elementwise=True,
            bind=_bind,
            fake=_fake,
            reference=_forward,
            backward=Backward(_save, _gradients),
        ),
        Overload(
            name="backward",
            schema="(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)",
            rows=("grad", "gate", "up"),
            elementwise=True,
            bind=_bind_backward,
            fake=_fake_backward,
            reference=_backward,
            backward=Backward(_save, _second),
        ),
    ),
    cases=_CASES,
    benchmarks=_BENCHMARKS,
    make=_make,
    bytes=lambda case: math.prod(case.shape) * SIZES[case.dtype] * (5 if case.overload == "backward" else 3),
    flops=lambda case: math.prod(case.shape) * (6 if case.overload == "backward" else 3),
    tolerances=TOLERANCES,
    selfcheck=_selfcheck,
    eager={"default": _eager, "backward": _eager_backward},
)
