# SPDX-License-Identifier: MIT
"""The gated half of a feed-forward layer in one pass: one matrix for the gate and what it is multiplied with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Backward, Op, Overload
from kernelwright.ops._tensors import without_autocast
from kernelwright.ops.linear import _gated_cases as gated
from kernelwright.ops.linear import _launch as kernels
from kernelwright.ops.linear import _reference as reference

if TYPE_CHECKING:
    from torch import Tensor


def gated_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = "silu") -> Tensor:
    """`activation(x @ gate.T + b) * (x @ up.T + c)` with `weight = cat(gate, up)` and `bias = cat(b, c)`.

    x           float32, float16 or bfloat16, [..., k], on the CPU or a GPU; float64 works too, for checking gradients
    weight      [2 * n, k], of x's dtype: first the rows of the gate. It is not repacked
    bias        [2 * n], of x's dtype, or None
    activation  that of the gate: "silu" (SwiGLU), "gelu" (exact), "gelu_tanh" (GeGLU), "relu", "squared_relu", or None

    Returns [..., n] of x's dtype. Differentiable. One kernel where that of kernelwright.linear would be one; elsewhere
    torch's own product and, with "silu", the kernel of kernelwright.swiglu.

    >>> y = kernelwright.gated_linear(x, torch.cat([gate.weight, up.weight]))
    """
    result: Tensor = calls.gated_linear.default(x, weight, bias, "none" if activation is None else activation)
    return result


def _fake(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    kernels.check(kernels.GATED, x, weight, bias, activation)
    return x.new_empty((*x.shape[:-1], weight.shape[0] // 2))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001 - torch passes it by name
    x, weight, bias, ctx.activation = inputs
    ctx.save_for_backward(x, weight, bias)


def _by_sums(grad: Tensor, both: Tensor, activation: str) -> Tensor:
    """The derivative by both sums, [gate | up]."""
    import torch

    if activation == "silu":
        found: Tensor = calls.swiglu.packed_backward(grad.contiguous(), both)
        return found
    wide = torch.float64 if grad.dtype == torch.float64 else torch.float32
    gate, up = both.to(wide).chunk(2, -1)
    of, steep = grad.to(wide), 1.0 if activation == "none" else reference.slope(gate, activation)
    return torch.cat((of * up * steep, of * reference.activated(gate, activation)), -1).to(grad.dtype)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    """The sums are computed once more: keeping them would cost twice the result."""
    import torch

    x, weight, bias = ctx.saved_tensors
    by_x, by_weight, by_bias = ctx.needs_input_grad[:3]
    with without_autocast(grad.device):  # backward() may be called within it
        grad = _by_sums(grad, torch.nn.functional.linear(x, weight, bias), ctx.activation)
        rows, inputs = reference.matrix(grad), reference.matrix(x)
        return (
            torch.matmul(grad, weight) if by_x else None,
            torch.matmul(rows.t(), inputs) if by_weight else None,
            rows.sum(0) if by_bias else None,
            None,
        )


def _flops(x: Any, weight: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(x) * int(weight[0])


OP = Op(
    name="gated_linear",
    doc="gated linear layer, activation(x @ gate.T) * (x @ up.T), of one matrix for both",
    function=gated_linear,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor weight, Tensor? bias, str activation) -> Tensor",
            bind=kernels.gated_bind,
            fake=_fake,
            reference=reference.gated,
            backward=Backward(_save, _gradients),
            terms=reference.gated_terms,
            rows=("x",),
            autocast=True,
        ),
    ),
    cases=gated.CASES,
    benchmarks=gated.BENCHMARKS,
    make=gated.make,
    bytes=gated.traffic,
    flops=gated.flops,
    flop_formula=_flops,
    tolerances=gated.TOLERANCES,
    selfcheck=gated.selfcheck,
    eager=gated.EAGER,
)
