# SPDX-License-Identifier: MIT
"""Layer normalisation of the last dimension, with optional weight and bias and an optional residual added first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op
from kernelwright.ops.norm._cases import TOLERANCES, Cases, selfcheck_of
from kernelwright.ops.norm._reference import Eager, in_float32, mixed
from kernelwright.ops.norm._shared import Norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Run = Callable[..., Any]


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    *,
    eps: float = 1e-5,
    inplace: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Takes off each row's mean and divides by its deviation: `y = (h - mean(h)) / sqrt(var(h) + eps) * weight + bias`.

    A row is the last dimension of `x`, 1 to 65536 elements; there may be any number of leading dimensions. The variance
    is mean((h - mean(h))^2), and right also where the mean is much larger than the deviations.

    x         float32, float16 or bfloat16, on the CPU or a GPU. float64 works too, for checking gradients: it is
              computed in plain torch, on the device of `x`. Rows that do not lie evenly in memory are copied first.
    weight    one factor a column, of the dtype of `x` or float32; None for no factor.
    bias      one summand a column, of the dtype of `weight` (without one: of `x`, or float32); None for none.
    residual  like `x`; then h = x + residual, else h = x. Sums are kept in float32. Beside an `x` in 16 bits it may be
              float32, and so is h then, within autocast too: converted to float32 first, with y rounded once.
    eps       added to the variance, so that a row of equal numbers becomes zeros (or the bias).
    inplace   write h into `residual` instead of a new tensor. No gradients are recorded then.

    Returns y, of the shape and dtype of `x` and contiguous; with `residual` and not `inplace`, the pair (y, h).
    Differentiable in x, weight, bias and residual; weight gradients have the same bits in every run.

    >>> y = kernelwright.layer_norm(x, weight, bias)
    >>> y, h = kernelwright.layer_norm(x, weight, bias, residual)
    """
    op = calls.layer_norm
    if residual is None:
        if inplace:
            raise InvalidArgument("layer_norm: inplace=True writes x + residual into residual, but residual is None")
        return op.default(x, weight, bias, eps)
    call = op.residual_ if inplace else op.residual
    if mixed(x, residual):
        return in_float32(x, residual, (weight, bias), lambda x, h, parameters: call(x, h, *parameters, eps))
    return call(x, residual, weight, bias, eps)


def _standardise(h: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    centered = h - h.mean(-1, keepdim=True)
    rstd = (centered * centered).mean(-1, keepdim=True).add(eps).rsqrt()
    return centered * rstd, rstd


# --- the order of the schemas' arguments ------------------------------------------


def _default(run: Run) -> Run:
    def call(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
        return run(x, None, (weight, bias), eps)

    return call


def _residual(run: Run) -> Run:
    def call(
        x: Tensor, residual: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
    ) -> Any:
        return run(x, residual, (weight, bias), eps)

    return call


def _backward(run: Run) -> Run:
    def call(
        grad: Tensor,
        h: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        grad_sum: Tensor | None,
        eps: float,
        weight_grad: bool,
        bias_grad: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return run(grad, h, (weight, bias), grad_sum, eps, (weight_grad, bias_grad))

    return call


NORM = Norm("layer_norm", ("weight", "bias"), _standardise, centered=True)
CASES = Cases(NORM)
OP = Op(
    name="layer_norm",
    doc="Layer normalisation of rows, with optional weight, bias and residual addition (also in place)",
    function=layer_norm,
    overloads=NORM.overloads(
        default=("(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor", _default),
        residual=(
            "(Tensor x, Tensor residual, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> (Tensor, Tensor)",
            _residual,
        ),
        residual_=(
            "(Tensor x, Tensor(a!) residual, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor",
            _residual,
        ),
        backward=(
            (
                "(Tensor grad, Tensor h, Tensor? weight, Tensor? bias, Tensor? grad_sum, float eps, "
                "bool weight_grad, bool bias_grad) -> (Tensor, Tensor, Tensor)"
            ),
            _backward,
        ),
    ),
    cases=CASES.cases,
    benchmarks=CASES.benchmarks,
    make=CASES.make,
    bytes=CASES.traffic,
    flops=CASES.flops,
    tolerances=TOLERANCES,
    selfcheck=selfcheck_of(NORM),
    eager=Eager(NORM).calls(),
)
