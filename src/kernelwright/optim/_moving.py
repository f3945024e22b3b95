# SPDX-License-Identifier: MIT
"""Steps whose number lies in the device's memory, so that a captured CUDA graph takes the next one at each replay.

They are taken where the learning rate is a tensor on the parameters' device, or while a graph is captured; from then on
by the parameters that were there. A state dict has an int, as ever.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from kernelwright import _environment, _library
from kernelwright.errors import Unsupported
from kernelwright.ops._tensors import placement
from kernelwright.ops.optim._optimizer import BLOCK, numbers_maker
from kernelwright.optim._many import fits, update
from kernelwright.optim._sharded import local, part_of_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from kernelwright.ops.optim._optimizer import Step
    from kernelwright.optim._many import Member

_WORDS = 8
"""Of 8 bytes: what kw_optimizer_advance asks for."""


class Moving:
    """The step that `sharers` parameters take together. int() of it reads the device's memory, and waits for that."""

    def __init__(self, before: int, memory: Tensor, sharers: int) -> None:
        self.before, self.memory, self.sharers = before, memory, sharers

    def __int__(self) -> int:
        return self.before + int(self.memory[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"

    def apart(self, count: int) -> Moving:
        """Of some of the sharers, who alone take the next one."""
        self.sharers -= count
        return Moving(self.before, self.memory.clone(), count)


def captured(device: torch.device) -> bool:
    """Whether calls become part of a CUDA graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def refuse_captured(p: Tensor, why: str) -> None:
    if captured(p.device):
        raise Unsupported(f"optimizer: a step cannot become part of a CUDA graph: a parameter of shape {p.shape} {why}")


def follows(config: dict[str, Any], p: Tensor, state: dict[str, Any]) -> bool:
    """Whether this parameter's step is such a one."""
    lr = config["lr"]
    wanted = isinstance(state["step"], Moving) or (isinstance(lr, torch.Tensor) and lr.device == p.device)
    if not (wanted or captured(p.device)) or _environment.read().disable:
        return False
    part = local(p)
    return fits(part, part, part_of_state(p, state, BLOCK))


def fixed(config: dict[str, Any]) -> dict[str, Any]:
    """The settings without those that are read or computed on the device."""
    lr = config["lr"]
    return {**config, "lr": 0.0 if isinstance(lr, torch.Tensor) else lr, "t_alpha": None, "t_beta3": None}


def _scheduled(config: dict[str, Any], moving: Moving) -> tuple[Tensor | None, Tensor | None]:
    """alpha and beta3 of AdEMAMix's next step, where they grow."""
    alpha = beta3 = None
    if config.get("t_alpha") or config.get("t_beta3"):
        step = (moving.memory[0] + (moving.before + 1)).to(torch.float64)
        if config.get("t_alpha"):
            alpha = (step * config["alpha"] / config["t_alpha"]).clamp(max=config["alpha"])
        if config.get("t_beta3"):
            beta1, _, most = config["betas"]
            fast, slow, done = math.log(beta1), math.log(most), step / config["t_beta3"]
            beta3 = (fast * slow / ((1 - done) * slow + done * fast)).exp().clamp(max=most)
    return alpha, beta3


@cache
def _advancer(key: str) -> Callable[..., None]:
    library = _library.load()
    place, make = placement(library, key), numbers_maker(library)

    def call(rule: str, moving: Moving, numbers: Step, given: Sequence[Tensor | None]) -> None:
        held = make(rule, numbers)
        pointers = [None if tensor is None else tensor.data_ptr() for tensor in given]
        device, stream = place(moving.memory)
        library.call(
            "kw_optimizer_advance", device, stream, moving.memory.data_ptr(), *pointers, ctypes.addressof(held)
        )

    return call


def _advance(rule: str, config: dict[str, Any], moving: Moving, numbers: Step) -> None:
    """Makes those numbers of the next step that change; `numbers` are the others."""
    lr = config["lr"]
    rate = lr.to(torch.float64) if isinstance(lr, torch.Tensor) and lr.device == moving.memory.device else None
    first = numbers._replace(step=moving.before + 1, lr=numbers.lr if rate is not None else float(lr))
    key = "CUDA" if moving.memory.is_cuda else "CPU"
    _advancer(key)(rule, moving, first, (rate, *_scheduled(config, moving)))


class Steps:
    """Those of one optimizer."""

    def __init__(self) -> None:
        self._groups: dict[Any, tuple[dict[str, Any], Step, list[Member]]] = {}
        self._room: dict[torch.device, list[Tensor]] = {}

    def add(self, p: Tensor, state: dict[str, Any], config: dict[str, Any], numbers: Step) -> None:
        """Parameters with the same of everything step together; two rates that are tensors are not the same."""
        step, lr = state["step"], config["lr"]
        at = step if isinstance(step, Moving) else int(step)
        rate = id(lr) if isinstance(lr, torch.Tensor) else None
        schedule = config.get("t_alpha"), config.get("t_beta3")
        key = p.device, p.dtype, state["state1"].dtype, at, rate, schedule, numbers
        self._groups.setdefault(key, (config, numbers, []))[2].append((p, state))

    def take(self, rule: str) -> None:
        groups, self._groups = self._groups, {}
        for config, numbers, members in groups.values():
            moving = self._of(members)
            _advance(rule, config, moving, numbers)
            update(rule, members, numbers, moving.memory)

    def _of(self, members: Sequence[Member]) -> Moving:
        """The step of these parameters; it is theirs from now on."""
        (p, state), count = members[0], len(members)
        moving = state["step"]
        if not isinstance(moving, Moving):
            moving = Moving(int(moving), self._memory(p), count)
        elif moving.sharers != count:
            refuse_captured(p, "took its last step with others; take one with these gradients before that")
            moving = moving.apart(count)
        for _, held in members:
            held["step"] = moving
        return moving

    def _memory(self, p: Tensor) -> Tensor:
        """Zeros for a step. What is made while a graph is captured would be made again by each replay."""
        room = self._room.get(p.device)
        if room:
            return room.pop()
        refuse_captured(p, "was at another step than those before; take a step with these gradients before that")
        return torch.zeros(_WORDS, dtype=torch.int64, device=p.device)

    def make_room(self, devices: Sequence[torch.device]) -> None:
        """Memory for as many steps as there were on GPUs, should the next ones be captured."""
        for device, count in Counter(devices).items():
            room = self._room.setdefault(device, [])
            if device.type == "cuda" and len(room) < count:
                room += torch.zeros((count, _WORDS), dtype=torch.int64, device=device).unbind()
