# SPDX-License-Identifier: MIT
"""A linear layer and its activation in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Backward, Op, Overload
from kernelwright.ops._rules import flops_of_product
from kernelwright.ops._tensors import without_autocast
from kernelwright.ops.linear import _cases as cases
from kernelwright.ops.linear import _launch as kernels
from kernelwright.ops.linear import _reference as reference

if TYPE_CHECKING:
    from torch import Tensor


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
    """`activation(x @ weight.T + bias)`; the sums are rounded once, after the activation, where a kernel fits.

    x           float32, float16 or bfloat16, [..., k], on the CPU or a GPU; float64 works too, for checking gradients
    weight      [n, k], of x's dtype
    bias        [n], of x's dtype, or None
    activation  "relu", "squared_relu", "silu", "gelu" (exact), "gelu_tanh", or None

    Returns [..., n] of x's dtype. Differentiable. Torch's own product is the faster way and is taken without an
    activation, on the CPU, on a GPU without wgmma, where rows do not lie on 16 bytes, of fewer than 256 rows or more
    than 4096 of k, and where there are too few tiles for the GPU. On the CPU the bits of torch's product depend on the
    number of threads.

    >>> y = kernelwright.linear(x, weight, bias, "gelu")
    """
    result: Tensor = calls.linear.default(x, weight, bias, "none" if activation is None else activation)
    return result


def _fake(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    kernels.check(kernels.LINEAR, x, weight, bias, activation)
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001 - torch passes it by name
    x, weight, bias, ctx.activation = inputs
    ctx.save_for_backward(x, weight, bias)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    """The sums before the activation are computed once more: keeping them would cost a second result."""
    import torch

    x, weight, bias = ctx.saved_tensors
    by_x, by_weight, by_bias = ctx.needs_input_grad[:3]
    with without_autocast(grad.device):  # backward() may be called within it
        if ctx.activation != "none":
            wide = torch.float64 if grad.dtype == torch.float64 else torch.float32
            z = torch.nn.functional.linear(x, weight, bias).to(wide)
            grad = (grad.to(wide) * reference.slope(z, ctx.activation)).to(grad.dtype)
        rows, inputs = reference.matrix(grad), reference.matrix(x)
        return (
            torch.matmul(grad, weight) if by_x else None,
            torch.matmul(rows.t(), inputs) if by_weight else None,
            rows.sum(0) if by_bias else None,
            None,
        )


OP = Op(
    name="linear",
    doc="linear layer and its activation (ReLU, squared ReLU, SiLU, GELU) in one pass",
    function=linear,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor weight, Tensor? bias, str activation) -> Tensor",
            bind=kernels.bind,
            fake=_fake,
            reference=reference.linear,
            backward=Backward(_save, _gradients),
            terms=reference.terms,
            rows=("x",),
            autocast=True,
        ),
    ),
    cases=cases.CASES,
    benchmarks=cases.BENCHMARKS,
    make=cases.make,
    bytes=cases.traffic,
    flops=cases.flops,
    flop_formula=flops_of_product,
    tolerances=cases.TOLERANCES,
    selfcheck=cases.selfcheck,
    eager=cases.EAGER,
)
