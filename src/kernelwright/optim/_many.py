# SPDX-License-Identifier: MIT
"""A step of many tensors by one call of the C library, which launches forty at a time.

Tensors that are not plain, or do not lie in memory without gaps, take the operator of one tensor instead.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from kernelwright import _environment, _library
from kernelwright.errors import InvalidDtype
from kernelwright.ops._tensors import dtype_codes, placement
from kernelwright.ops.optim._blockwise import FLOATS
from kernelwright.ops.optim._optimizer import BLOCK, RULES, numbers_maker
from kernelwright.optim._sharded import local, part_of_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from kernelwright.ops.optim._optimizer import Step

    Member = tuple[Tensor, dict[str, Any]]

_WRITTEN = ("state1", "state2", "absmax1", "absmax2")
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


@cache
def _caller(key: str, coded: bool) -> Callable[..., None]:
    """A function of members of one device and type, contiguous, that makes the call."""
    library = _library.load()
    function = "kw_optimizer_update_8bit_blockwise" if coded else "kw_optimizer_update_32bit"
    types, place, make = dtype_codes(library, FLOATS[:3]), placement(library, key), numbers_maker(library)
    struct = library.structs["kw_optimizer_tensor"]

    def call(
        rule: str, members: Sequence[tuple[Tensor, Tensor, dict[str, Any]]], numbers: Step, moving: Tensor | None
    ) -> None:
        several, first = RULES[rule] > 1, members[0][2]
        rows = (struct * len(members))()
        for row, (p, grad, state) in zip(rows, members, strict=True):
            row.param, row.grad, row.state1 = p.data_ptr(), grad.data_ptr(), state["state1"].data_ptr()
            row.count = p.numel()
            if several:
                row.state2 = state["state2"].data_ptr()
            if coded:
                row.absmax1 = state["absmax1"].data_ptr()
                row.absmax2 = state["absmax2"].data_ptr() if several else None
        device, stream = place(members[0][0])
        maps = [first["qmap1"].data_ptr(), first["qmap2"].data_ptr() if several else None] if coded else []
        given, dtype = (ctypes.addressof(rows), len(rows), *maps), types[members[0][0].dtype]
        held = make(rule, numbers)
        if moving is None:
            library.call(f"{function}_many", device, stream, *given, ctypes.addressof(held), dtype)
        else:
            library.call(f"{function}_moving", device, stream, *given, moving.data_ptr(), ctypes.addressof(held), dtype)
        for p, _, state in members:
            for tensor in (p, *(state[name] for name in _WRITTEN if name in state)):
                torch.autograd.graph.increment_version(tensor)

    return call


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
        first, state = together[0][0], together[0][2]
        _caller("CUDA" if first.is_cuda else "CPU", state["state1"].dtype == torch.uint8)(
            rule, together, numbers, moving
        )
