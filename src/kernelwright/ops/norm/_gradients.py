# SPDX-License-Identifier: MIT
"""The derivatives of the normalisations, in reverse mode: each is one call of the norm's own `backward` overload.

That overload's own derivative is taken through its definition in plain torch; so second derivatives are right, and
cost what plain torch costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Backward

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.ops.norm._reference import Reference


def _call(
    op: str, ctx: Any, grad: Tensor, h: Tensor, parameters: tuple[Any, ...], grad_sum: Tensor | None, first: int
) -> tuple[Tensor, list[Tensor | None]]:
    """Of h, and of the parameters, which are the arguments from number `first` on."""
    needed = ctx.needs_input_grad
    wanted = [
        # The dispatcher may have left arguments out at the end.
        parameter is not None and place < len(needed) and needed[place]
        for place, parameter in enumerate(parameters, first)
    ]
    backward = getattr(calls, op).backward
    to_h, *found = backward(grad, h, *parameters, grad_sum, ctx.eps, *wanted)
    return to_h, [tensor if want else None for tensor, want in zip(found, wanted, strict=True)]


def gradient_of_default(op: str, count: int) -> Backward:
    """For (x, parameters, eps)."""

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001 - torch's signature
        ctx.eps = inputs[-1]
        ctx.save_for_backward(*inputs[:-1])

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *parameters = ctx.saved_tensors
        to_x, found = _call(op, ctx, grad, x, tuple(parameters[:count]), None, 1)
        return to_x, *found, None

    return Backward(setup, backward)


def gradient_of_residual(op: str, count: int) -> Backward:
    """For (x, residual, parameters, eps)."""

    def setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.eps = inputs[-1]
        ctx.save_for_backward(output[1], *inputs[2:-1])  # h itself, so that neither x nor residual is kept alive
        ctx.set_materialize_grads(False)  # a sum that nobody used has no gradient, which is cheaper than zeros

    def backward(ctx: Any, grad: Tensor | None, grad_sum: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return grad_sum, grad_sum, *[None] * count, None
        h, *parameters = ctx.saved_tensors
        to_h, found = _call(op, ctx, grad, h, tuple(parameters), grad_sum, 2)
        return to_h, to_h, *found, None

    return Backward(setup, backward)


def gradient_of_backward(reference: Reference, count: int) -> Backward:
    """For (grad, h, parameters, grad_sum, eps, wanted)."""
    tensors = 3 + count

    def setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ARG001
        ctx.save_for_backward(*inputs[:tensors])
        ctx.eps, *ctx.wanted = inputs[tensors:]

    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        import torch

        saved = ctx.saved_tensors
        places = [i for i in range(tensors) if ctx.needs_input_grad[i]]

        def again(*differentiated: Tensor) -> tuple[Tensor, ...]:
            args = list(saved)
            for place, tensor in zip(places, differentiated, strict=True):
                args[place] = tensor
            grad, h, *parameters, grad_sum = args
            return reference.backward(grad, h, tuple(parameters), grad_sum, ctx.eps, tuple(ctx.wanted))

        _, pull = torch.func.vjp(again, *(saved[i] for i in places))
        found = dict(zip(places, pull(grads), strict=True))
        return *(found.get(i) for i in range(tensors)), *[None] * (1 + count)

    return Backward(setup, backward)
