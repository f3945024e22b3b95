# SPDX-License-Identifier: MIT
"""A step of an optimizer with states of 8-bit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops.optim import _blockwise as blockwise
from kernelwright.ops.optim import _optimizer as optimizer
from kernelwright.ops.optim import _optimizer_cases as cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

_NAME = "optimizer_update_8bit_blockwise"


def optimizer_update_8bit_blockwise(
    param: Tensor,
    grad: Tensor,
    state1: Tensor,
    state2: Tensor | None,
    absmax1: Tensor,
    absmax2: Tensor | None,
    map1: Tensor,
    map2: Tensor | None,
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
    """One step of an optimizer, in place, with states of 8 bits in blocks of 256.

    param, grad       float32, float16, bfloat16 or float64, of one shape, on the CPU or a GPU; computed in float32
    state1            uint8, as many codes as param has elements; of "ademamix" twice as many, the fast mean's and then
                      the slow one's
    state2            of "adam" and "ademamix": the codes of the mean of squares, like param; else None
    absmax1, absmax2  float32, a scale for each 256 elements of the states
    map1, map2        the 256 values of their codes, float32: create_dynamic_map() and create_dynamic_map(signed=False)
    rule              "adam", "ademamix", "momentum", "rmsprop", "adagrad" or "lion"
    step              1 at the first

    What the numbers do is as in optimizer_update_32bit. The parameter is made of the states before they are rounded to
    codes again; of two codes as near the even one is taken.
    """
    numbers = step, lr, beta1, beta2, beta3, alpha, eps, weight_decay, grad_scale
    if state2 is None:
        calls.optimizer_update_8bit_blockwise.one_state(param, grad, state1, absmax1, map1, rule, *numbers)
    else:
        calls.optimizer_update_8bit_blockwise.default(
            param, grad, state1, state2, absmax1, absmax2, map1, map2, rule, *numbers
        )


def _check(tensors: Sequence[Tensor], rule: str, numbers: optimizer.Step) -> None:
    param, grad, *held = tensors
    count = len(held) // 3
    optimizer.check_rule(_NAME, rule, count, numbers)
    optimizer.check_param(_NAME, param, grad)
    optimizer.check_states(_NAME, rule, param, held[:count], "uint8")
    optimizer.check_scales(_NAME, rule, param, held[count : 2 * count], held[2 * count :])


def _by_torch(tensors: Sequence[Tensor], rule: str, numbers: optimizer.Step) -> None:
    param, grad, *rest = tensors
    count = len(rest) // 3
    held, scales, tables = rest[:count], rest[count : 2 * count], rest[2 * count :]
    own = [tensor.contiguous() for tensor in (*held, *scales)]
    codes = optimizer.apart(rule, param, own[: len(held)])
    absmax = optimizer.scales_apart(rule, own[len(held) :])
    wide = optimizer.wide(param)
    kinds = [tables[i % 2] for i in range(len(codes))]
    states = [
        blockwise.dequantize(code, scale, table, optimizer.BLOCK, wide)
        for code, scale, table in zip(codes, absmax, kinds, strict=True)
    ]
    param.copy_(optimizer.update(rule, param, grad, states, numbers))
    for code, scale, table, state in zip(codes, absmax, kinds, states, strict=True):
        found, largest = blockwise.quantize(state, table, optimizer.BLOCK)
        code.copy_(found)
        scale.copy_(largest)
    for tensor, copy in zip((*held, *scales), own, strict=True):
        tensor.copy_(copy)


def _overload(name: str, names: tuple[str, ...]) -> Overload:
    return optimizer.overload(_NAME, name, names, _check, _by_torch)


OP = Op(
    name=_NAME,
    doc="a step of Adam, AdEMAMix, SGD, RMSprop, Adagrad or Lion with states of 8 bits, in place",
    function=optimizer_update_8bit_blockwise,
    overloads=(
        _overload("default", ("param", "grad", "state1", "state2", "absmax1", "absmax2", "map1", "map2")),
        _overload("one_state", ("param", "grad", "state1", "absmax1", "map1")),
    ),
    cases=cases.CASES,
    benchmarks=cases.BENCHMARKS,
    make=cases.make_8bit,
    bytes=cases.traffic_8bit,
    flops=cases.flops,
    tolerances=cases.TOLERANCES,
    selfcheck=cases.selfcheck_8bit,
)
