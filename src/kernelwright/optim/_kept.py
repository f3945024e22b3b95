# SPDX-License-Identifier: MIT
"""The next step of parameters that are as they were at the last one: their table is kept, only gradients are new.

What is looked at for each parameter of each step is what lets the C library read and write its memory, no more: of two
hundred small parameters the rest of a step's Python took most of its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kernelwright import _environment
from kernelwright.optim import _moving
from kernelwright.optim._many import fits
from kernelwright.optim._rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.optim._base import Optimizer8bit


class _Batch(NamedTuple):
    """Parameters that take the same step, of one group."""

    gindex: int
    pindex: int  # of the first
    params: list[Tensor]
    rows: Rows


def _may(optimizer: Optimizer8bit) -> bool:
    """Not where a step is more than a call for each batch: states in pages, limits, settings of single parameters."""
    manager, limit = optimizer.mng, getattr(optimizer.args, "max_unorm", 0.0)
    return not (
        optimizer.is_paged
        or limit
        or manager.index2config
        or manager.pid2config
        or _environment.read().disable
        or any(isinstance(group["lr"], torch.Tensor) for group in optimizer.param_groups)
    )


def _batches(optimizer: Optimizer8bit) -> tuple[list[_Batch], list[Tensor]] | None:
    """And the parameters that had no gradient."""
    found: dict[Any, tuple[int, list[Any]]] = {}
    idle = []
    for gindex, group in enumerate(optimizer.param_groups):
        for pindex, p in enumerate(group["params"]):
            state = optimizer.state.get(p)
            if p.grad is None:
                idle.append(p)
            elif not state or not fits(p, p.grad, state) or not isinstance(state["step"], int) or not p.numel():
                return None
            else:
                key = gindex, p.device, p.dtype, state["state1"].dtype, state["step"]
                found.setdefault(key, (pindex, []))[1].append((p, p.grad, state))
    return [
        _Batch(gindex, pindex, [p for p, *_ in members], Rows(optimizer.rule, members))
        for (gindex, *_), (pindex, members) in found.items()
    ], idle


class Kept:
    """Of one optimizer."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._batches: list[_Batch] = []
        self._idle: list[Tensor] = []
        self._groups: list[int] = []
        self._others = 0  # steps since the last one by a kept table

    def note(self, optimizer: Optimizer8bit) -> None:
        """Keeps tables after a step without them; ever more rarely tried where none is of use, as it takes time."""
        others = self._others + 1
        self.forget()
        self._others = others
        found = _batches(optimizer) if others & (others - 1) == 0 and _may(optimizer) else None
        if found:
            self._batches, self._idle = found
            self._groups = [len(group["params"]) for group in optimizer.param_groups]

    def step(self, optimizer: Optimizer8bit) -> bool:
        """Takes it; False, and nothing is done, where anything else than gradients may have changed."""
        groups = optimizer.param_groups
        if not self._batches or not _may(optimizer) or self._groups != [len(group["params"]) for group in groups]:
            return False
        if any(p.grad is not None for p in self._idle):
            return False
        states = [[optimizer.state[p] for p in batch.params] for batch in self._batches]
        for batch, held in zip(self._batches, states, strict=True):
            step = held[0].get("step")
            if (
                not isinstance(step, int)
                or not batch.rows.renewed(held, step)
                or _moving.captured(batch.params[0].device)
            ):
                return False
        for batch, held in zip(self._batches, states, strict=True):
            step = held[0]["step"] + 1
            config = optimizer.get_config(batch.gindex, batch.pindex, groups[batch.gindex])
            batch.rows.take(optimizer.numbers(config, step))
            for state in held:
                state["step"] = step
        self._others = 0
        return True
