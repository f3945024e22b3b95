# SPDX-License-Identifier: MIT
"""A step of many tensors by one call of the C library, which launches forty at a time.

Tensors that are not plain, or do not lie in memory without gaps, take the operator of one tensor instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright import _environment
from kernelwright.errors import InvalidDtype
from kernelwright.ops.optim._optimizer import BLOCK, RULES
from kernelwright.optim._rows import Rows
from kernelwright.optim._sharded import local, part_of_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from kernelwright.ops.optim._optimizer import Step

    Member = tuple[Tensor, dict[str, Any]]

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _alone(rule: str, p: Tensor, grad: Tensor, state: dict[str, Any], numbers: Step) -> None:
    coded, several = state["state1"].dtype == torch.uint8, RULES[rule] > 1
    op = (
        torch.ops.kernelwright.optimizer_update_8bit_blockwise
        if coded
        else torch.ops.kernelwright.optimizer_update_32bit
    )
    states = [state["state1"], state["state2"]] if several else [state["state1"]]
    if coded:
        names = ("absmax1", "absmax2", "qmap1", "qmap2") if several else ("absmax1", "qmap1")
        states += [state[name] for name in names]
    getattr(op, "default" if several else "one_state")(p, grad, *states, rule, *numbers)


def fits(p: Tensor, grad: Tensor, state: dict[str, Any]) -> bool:
    """Whether the C library can take these as they are."""
    held = [p, grad, *(value for value in state.values() if isinstance(value, torch.Tensor))]
    return p.dtype is not torch.float64 and all(
        type(tensor) in _PLAIN and tensor.is_contiguous() and tensor.device == p.device for tensor in held
    )


def update(rule: str, members: Sequence[Member], numbers: Step, moving: Tensor | None = None) -> None:
    """One step of all these parameters, of one device and type, whose states have one width.

    `moving` is memory on the device with the numbers that change from step to step (_moving.py): then all fit.
    """
    together = []
    direct = not _environment.read().disable
    for whole, held in members:
        if whole.grad is None:
            continue
        p, grad, state = local(whole), local(whole.grad), part_of_state(whole, held, BLOCK)
        if grad.dtype is not p.dtype:
            raise InvalidDtype(f"optimizer: a gradient has dtype {grad.dtype}, but its parameter has {p.dtype}")
        grad = grad.contiguous() if grad.layout is torch.strided else grad
        if not p.numel():
            continue
        if moving is not None or (direct and fits(p, grad, state)):
            together.append((p, grad, state))
        else:
            _alone(rule, p, grad, state, numbers)
    if together:
        Rows(rule, together).take(numbers, moving)
