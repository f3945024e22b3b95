# SPDX-License-Identifier: MIT
"""RMS normalisation of the last dimension, with an optional weight and an optional residual added first."""

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


def rms_norm(
    x: Tensor, weight: Tensor | None = None, residual: Tensor | None = None, *, eps: float = 1e-6, inplace: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Divides each row by its root mean square: `y = h / sqrt(mean(h * h) + eps) * weight`.

    A row is the last dimension of `x`, 1 to 65536 elements; there may be any number of leading dimensions.

    x         float32, float16 or bfloat16, on the CPU or a GPU. float64 works too, for checking gradients: it is
              computed in plain torch, on the device of `x`. Rows that do not lie evenly in memory are copied first.
    weight    one factor a column, of the dtype of `x` or float32; None for no factor.
    residual  like `x`; then h = x + residual, else h = x. Sums are kept in float32. Beside an `x` in 16 bits it may be
              float32, and so is h then, within autocast too: converted to float32 first, with y rounded once.
    eps       added to the mean square, so that a row of zeros stays zero.
    inplace   write h into `residual` instead of a new tensor. No gradients are recorded then.

    Returns y, of the shape and dtype of `x` and contiguous; with `residual` and not `inplace`, the pair (y, h).
    Differentiable in x, weight and residual.

    >>> y = kernelwright.rms_norm(x, weight)
    >>> y, h = kernelwright.rms_norm(x, weight, residual)
    """
    op = calls.rms_norm
    if residual is None:
        if inplace:
            raise InvalidArgument("rms_norm: inplace=True writes x + residual into residual, but residual is None")
        return op.default(x, weight, eps)
    call = op.residual_ if inplace else op.residual
    if mixed(x, residual):
        return in_float32(x, residual, (weight,), lambda x, h, parameters: call(x, h, *parameters, eps))
    return call(x, residual, weight, eps)


def _standardise(h: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    rstd = (h * h).mean(-1, keepdim=True).add(eps).rsqrt()
    return h * rstd, rstd


# --- the order of the schemas' arguments ------------------------------------------


def _default(run: Run) -> Run:
    def call(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
        return run(x, None, (weight,), eps)

    return call


def _residual(run: Run) -> Run:
    def call(x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Any:
        return run(x, residual, (weight,), eps)

    return call


def _backward(run: Run) -> Run:
    def call(
        grad: Tensor, h: Tensor, weight: Tensor | None, grad_sum: Tensor | None, eps: float, weight_grad: bool
    ) -> tuple[Tensor, Tensor]:
        return run(grad, h, (weight,), grad_sum, eps, (weight_grad,))

    return call


NORM = Norm("rms_norm", ("weight",), _standardise, centered=False)
CASES = Cases(NORM)
OP = Op(
    name="rms_norm",
    doc="RMS normalisation of rows, with optional weight and residual addition (also in place)",
    function=rms_norm,
    overloads=NORM.overloads(
        default=("(Tensor x, Tensor? weight=None, float eps=1e-6) -> Tensor", _default),
        residual=(
            "(Tensor x, Tensor residual, Tensor? weight=None, float eps=1e-6) -> (Tensor, Tensor)",
            _residual,
        ),
        residual_=(
            "(Tensor x, Tensor(a!) residual, Tensor? weight=None, float eps=1e-6) -> Tensor",
            _residual,
        ),
        backward=(
            (
                "(Tensor grad, Tensor h, Tensor? weight, Tensor? grad_sum, float eps, bool weight_grad) "
                "-> (Tensor, Tensor)"
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
