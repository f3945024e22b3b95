# SPDX-License-Identifier: MIT
"""The gated activation silu(gate) * up, of two inputs or of one that holds both, forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Backward, Op, Overload
from kernelwright.ops.gated import _cases as cases
from kernelwright.ops.gated import _checks as checks
from kernelwright.ops.gated import _launch as kernels
from kernelwright.ops.gated import _reference as reference

if TYPE_CHECKING:
    from torch import Tensor


def swiglu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """The gated activation of a feed-forward layer: `y = silu(gate) * up`, where silu(v) = v / (1 + exp(-v)).

    gate  float32, float16 or bfloat16, on the CPU or a GPU, of any shape with at least one dimension; computed in
          float32. float64 works too, for checking gradients: it is computed in plain torch, on the device of `gate`.
          Rows (the last dimension) that do not lie evenly in memory are copied first.
    up    like `gate`. None: `gate` holds both, [gate | up] side by side in its last dimension, which must be even.

    Returns y, of the dtype and shape of `gate` (packed: half as wide), contiguous. Differentiable.

    >>> y = kernelwright.swiglu(gate, up)
    >>> y = kernelwright.swiglu(linear(x))  # one matrix for both
    """
    op = calls.swiglu
    return op.packed(gate) if up is None else op.default(gate, up)


# --- without values ---------------------------------------------------------------


def _empty_like(tensor: Tensor) -> Tensor:
    import torch

    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _fake(gate: Tensor, up: Tensor) -> Tensor:
    checks.check(gate, up)
    return _empty_like(gate)


def _fake_packed(x: Tensor) -> Tensor:
    return x.new_empty(checks.check_packed(x))


def _fake_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    checks.check_backward(grad, gate, up)
    return _empty_like(gate), _empty_like(gate)


def _fake_packed_backward(grad: Tensor, x: Tensor) -> Tensor:
    checks.check_packed_backward(grad, x)
    return _empty_like(x)


# --- gradients --------------------------------------------------------------------


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:  # noqa: ARG001 - torch passes it by name
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = calls.swiglu.backward(grad, *ctx.saved_tensors)
    return found


def _gradients_packed(ctx: Any, grad: Tensor) -> tuple[Tensor]:
    return (calls.swiglu.packed_backward(grad, *ctx.saved_tensors),)


def _second(ctx: Any, to_gate: Tensor, to_up: Tensor) -> tuple[Tensor, ...]:
    return reference.second(to_gate, to_up, *ctx.saved_tensors)


def _second_packed(ctx: Any, to_x: Tensor) -> tuple[Tensor, ...]:
    return reference.second_packed(to_x, *ctx.saved_tensors)


OP = Op(
    name="swiglu",
    doc="gated activation silu(gate) * up, of two tensors or of one that holds both",
    function=swiglu,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor gate, Tensor up) -> Tensor",
            rows=("gate", "up"),
            elementwise=True,
            bind=kernels.bind,
            fake=_fake,
            reference=reference.forward,
            backward=Backward(_save, _gradients),
        ),
        Overload(
            name="packed",
            schema="(Tensor x) -> Tensor",
            rows=("x",),
            bind=kernels.bind_packed,
            fake=_fake_packed,
            reference=reference.packed,
            backward=Backward(_save, _gradients_packed),
        ),
        Overload(
            name="backward",
            schema="(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)",
            rows=("grad", "gate", "up"),
            elementwise=True,
            bind=kernels.bind_backward,
            fake=_fake_backward,
            reference=reference.backward,
            backward=Backward(_save, _second),
            terms=reference.terms_of_backward,
        ),
        Overload(
            name="packed_backward",
            schema="(Tensor grad, Tensor x) -> Tensor",
            rows=("grad", "x"),
            bind=kernels.bind_packed_backward,
            fake=_fake_packed_backward,
            reference=reference.packed_backward,
            backward=Backward(_save, _second_packed),
            terms=reference.terms_of_packed_backward,
        ),
    ),
    cases=cases.CASES,
    benchmarks=cases.BENCHMARKS,
    make=cases.make,
    bytes=cases.traffic,
    flops=cases.flops,
    tolerances=cases.TOLERANCES,
    selfcheck=cases.selfcheck,
    eager=cases.EAGER,
)
