# SPDX-License-Identifier: MIT
"""A step of an optimizer with float32 states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops.optim import _optimizer as optimizer
from kernelwright.ops.optim import _optimizer_cases as cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

_NAME = "optimizer_update_32bit"


def optimizer_update_32bit(
    param: Tensor,
    grad: Tensor,
    state1: Tensor,
    state2: Tensor | None,
    rule: str,
    *,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    beta3: float = 0.0,
    alpha: float = 0.0,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    grad_scale: float = 1.0,
) -> None:
    """One step of an optimizer, in place, with states of 32 bits.

    param, grad  float32, float16, bfloat16 or float64, of one shape, on the CPU or a GPU; computed in float32
    state1       float32, as many elements as param; of "ademamix" twice as many, the fast mean and then the slow one
    state2       of "adam" and "ademamix": the mean of squares, like param; else None
    rule         "adam", "ademamix", "momentum", "rmsprop", "adagrad" or "lion", as kernelwright.optim uses them
    step         1 at the first

    Weight decay is added to the gradient of "momentum", "rmsprop" and "adagrad", and shrinks param in the other rules.

    >>> kernelwright.optimizer_update_32bit(w, w.grad, m, v, "adam", step=1, lr=1e-3)
    """
    numbers = step, lr, beta1, beta2, beta3, alpha, eps, weight_decay, grad_scale
    if state2 is None:
        calls.optimizer_update_32bit.one_state(param, grad, state1, rule, *numbers)
    else:
        calls.optimizer_update_32bit.default(param, grad, state1, state2, rule, *numbers)


def _check(tensors: Sequence[Tensor], rule: str, numbers: optimizer.Step) -> None:
    param, grad, *held = tensors
    optimizer.check_rule(_NAME, rule, len(held), numbers)
    optimizer.check_param(_NAME, param, grad)
    optimizer.check_states(_NAME, rule, param, held, "float32")


def _by_torch(tensors: Sequence[Tensor], rule: str, numbers: optimizer.Step) -> None:
    param, grad, *held = tensors
    own = [state.contiguous() for state in held]
    parts = optimizer.apart(rule, param, own)
    states = [part.to(optimizer.wide(param)) for part in parts]
    param.copy_(optimizer.update(rule, param, grad, states, numbers))
    for part, state in zip(parts, states, strict=True):
        part.copy_(state)
    for state, copy in zip(held, own, strict=True):
        state.copy_(copy)


def _overload(name: str, names: tuple[str, ...]) -> Overload:
    return optimizer.overload(_NAME, name, names, _check, _by_torch)


OP = Op(
    name=_NAME,
    doc="a step of Adam, AdEMAMix, SGD, RMSprop, Adagrad or Lion with float32 states, in place",
    function=optimizer_update_32bit,
    overloads=(
        _overload("default", ("param", "grad", "state1", "state2")),
        _overload("one_state", ("param", "grad", "state1")),
    ),
    cases=cases.CASES,
    benchmarks=cases.BENCHMARKS,
    make=cases.make_32bit,
    bytes=cases.traffic_32bit,
    flops=cases.flops,
    tolerances=cases.TOLERANCES,
    selfcheck=cases.selfcheck_32bit,
)
