# SPDX-License-Identifier: MIT
"""Tensors of a step as the C library takes them: a table in memory, a row a parameter."""

from __future__ import annotations

import ctypes
from functools import cache
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any

import torch

from kernelwright import _library
from kernelwright.ops._tensors import dtype_codes, placement
from kernelwright.ops.optim._blockwise import FLOATS
from kernelwright.ops.optim._optimizer import RULES, numbers_maker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from kernelwright.ops.optim._optimizer import Step

    Member = tuple[Tensor, Tensor, dict[str, Any]]

_WRITTEN = ("state1", "state2", "absmax1", "absmax2")
_address = torch.Tensor.data_ptr


@cache
def _one_by_one() -> bool:
    """Whether this torch notes a change of one tensor a call only."""
    try:
        torch.autograd.graph.increment_version(())
    except (TypeError, AttributeError):
        return True
    return False


def _changed(tensors: Sequence[Tensor]) -> None:
    """A backward pass that saved one of them must notice."""
    for each in tensors if _one_by_one() else (tensors,):
        torch.autograd.graph.increment_version(each)


@cache
def _call(key: str, coded: bool) -> Callable[..., None]:
    """The C library's step of a table."""
    library = _library.load()
    function = "kw_optimizer_update_8bit_blockwise" if coded else "kw_optimizer_update_32bit"
    types, place, make = dtype_codes(library, FLOATS[:3]), placement(library, key), numbers_maker(library)

    def call(rule: str, first: Tensor, given: Sequence[Any], numbers: Step, moving: Tensor | None) -> None:
        device, stream = place(first)
        held = make(rule, numbers)
        rest = ctypes.addressof(held), types[first.dtype]
        if moving is None:
            library.call(f"{function}_many", device, stream, *given, *rest)
        else:
            library.call(f"{function}_moving", device, stream, *given, moving.data_ptr(), *rest)

    return call


class Rows:
    """Parameters of one device, type and width of states, contiguous; their states' tensors stay alive with it."""

    def __init__(self, rule: str, members: Sequence[Member]) -> None:
        p, _, state = members[0]
        self.rule, self.first, self.coded = rule, p, state["state1"].dtype == torch.uint8
        maps = ("qmap1", "qmap2") if self.coded else ()
        names = [name for name in _WRITTEN if name in state and (self.coded or name.startswith("state"))]
        numbers = ("1", "2")[: min(RULES[rule], 2)]
        self._names = [name for name in (*names, *maps) if name.endswith(numbers)]
        struct = _library.load().structs["kw_optimizer_tensor"]
        self._table = (struct * len(members))()
        self._words = memoryview(self._table).cast("B").cast("Q")
        self._stride, self._grad = ctypes.sizeof(struct) // 8, struct.grad.offset // 8
        self._held: list[tuple[Tensor, int, int, tuple[Tensor, ...], list[int]]] = []
        self._written: list[Tensor] = []
        for row, (p, grad, state) in zip(self._table, members, strict=True):
            tensors = tuple(state[name] for name in self._names)
            places = list(map(_address, tensors))
            self._held.append((p, p.data_ptr(), p.numel(), tensors, places))
            self._written += [p, *(state[name] for name in self._names if name not in maps)]
            row.param, row.grad, row.count = p.data_ptr(), grad.data_ptr(), p.numel()
            for name, place in zip(self._names, places, strict=True):
                if name not in maps:
                    setattr(row, name, place)
        at = dict(zip(self._names, self._held[0][4], strict=True))
        self._given = ctypes.addressof(self._table), len(members), *(at.get(name) for name in maps)

    def renewed(self, states: Sequence[dict[str, Any]], step: int) -> bool:
        """Whether all is as it was but for the gradients, whose places are taken from the parameters now."""
        words, at, taken = self._words, self._grad, itemgetter("step", *self._names)
        for (p, place, count, tensors, places), state in zip(self._held, states, strict=True):
            grad = p.grad
            if type(grad) is not torch.Tensor or grad.dtype is not p.dtype or grad.layout is not torch.strided:
                return False
            if not grad.is_contiguous() or grad.numel() != count or p.data_ptr() != place or p.numel() != count:
                return False
            try:
                number, *now = taken(state)
            except KeyError:
                return False
            if number != step or not all(map(is_, now, tensors)) or list(map(_address, tensors)) != places:
                return False
            words[at] = grad.data_ptr()
            at += self._stride
        return True

    def take(self, numbers: Step, moving: Tensor | None = None) -> None:
        key = "CUDA" if self.first.is_cuda else "CPU"
        _call(key, self.coded)(self.rule, self.first, self._given, numbers, moving)
        _changed(self._written)
