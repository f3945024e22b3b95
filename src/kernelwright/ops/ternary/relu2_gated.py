# SPDX-License-Identifier: MIT
"""The gated activation relu(gate)^2 * up, forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._calls import calls
from kernelwright.ops._elementwise import Formula, elementwise
from kernelwright.ops._record import Backward

if TYPE_CHECKING:
    from torch import Tensor


def relu2_gated(gate: Tensor, up: Tensor) -> Tensor:
    """The gated activation of BitNet's feed-forward part: `y = relu(gate)^2 * up`.

    gate, up  float32, float16 or bfloat16, of one shape, on the CPU or a GPU; computed in float32. float64 works too,
              for checking gradients. Rows (the last dimension) that do not lie evenly in memory are copied first.

    Returns y, of their dtype and shape, contiguous. Differentiable.

    >>> y = kernelwright.relu2_gated(gate, up)
    """
    found: Tensor = calls.relu2_gated.default(gate, up)
    return found


def _forward(gate: Tensor, up: Tensor) -> Tensor:
    return gate.relu().square() * up


def _backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    positive = gate.relu()
    return 2 * positive * (grad * up), grad * positive.square()


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:  # noqa: ARG001 - torch passes it by name
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = calls.relu2_gated.backward(grad, *ctx.saved_tensors)
    return found


def _wide(tensor: Tensor) -> Tensor:
    import torch

    return tensor if tensor.dtype is torch.float64 else tensor.float()


def _second(ctx: Any, to_gate: Tensor, to_up: Tensor) -> tuple[Tensor, ...]:
    grad, gate, up = ctx.saved_tensors
    v, w, g, a, u = map(_wide, (to_gate, to_up, grad, gate, up))
    r = a.relu()
    by_gate = 2 * (v * g * u * (a > 0) + w * g * r)
    return (2 * v * r * u + w * r.square()).to(grad.dtype), by_gate.to(gate.dtype), (2 * v * r * g).to(up.dtype)


OP = elementwise(
    "relu2_gated",
    doc="gated activation relu(gate)^2 * up",
    function=relu2_gated,
    formulas=(
        Formula(
            "(Tensor gate, Tensor up) -> Tensor",
            in_torch=_forward,
            in_python=lambda gate, up: max(gate, 0) ** 2 * up,
            operations=3,
            backward=Backward(_save, _gradients),
        ),
        Formula(
            "(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)",
            name="backward",
            in_torch=_backward,
            in_python=lambda grad, gate, up: (2 * max(gate, 0) * up * grad, max(gate, 0) ** 2 * grad),
            operations=6,
            backward=Backward(_save, _second),
            like="gate",
        ),
    ),
)
