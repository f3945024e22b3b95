# SPDX-License-Identifier: MIT
"""States in the host's memory: pinned, and copied to the GPU and back while other tensors are computed.

The GPU holds two buffers. While one's states are used, the next ones come into the other, and the last ones go back;
so an optimizer holds as much of the GPU's memory as these two, however large its states are. Nothing is left to the
driver: managed memory, which bitsandbytes takes for this, moves page by page when a kernel touches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.optim import _many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from kernelwright.ops.optim._optimizer import Step
    from kernelwright.optim._many import Member

FROM = 100_000
"""Elements of a parameter from which its states are paged; as in bitsandbytes."""
_NAMES = ("state1", "state2")
_ALIGNED = 256


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device, pin: bool = True) -> Tensor:
    return _marked(torch.zeros(tuple(shape), dtype=dtype, device="cpu", pin_memory=pin), device)


def _marked(tensor: Tensor, device: torch.device) -> Tensor:
    """With bitsandbytes' attributes."""
    tensor.is_paged, tensor.page_deviceid = True, device.index
    return tensor


def is_paged(tensor: Any) -> bool:
    return bool(getattr(tensor, "is_paged", False))


def page_out(state: dict[str, Any], device: torch.device) -> None:
    """Moves states that lie on the GPU, as a state dict that was loaded has them, to the host."""
    for name in _NAMES:
        if name in state and not is_paged(state[name]):
            held = torch.empty(state[name].shape, dtype=state[name].dtype, device="cpu", pin_memory=True)
            state[name] = _marked(held.copy_(state[name]), device)


def _bytes(state: dict[str, Any]) -> int:
    return sum(-(-state[name].nbytes // _ALIGNED) * _ALIGNED for name in _NAMES if name in state)


def grouped(members: Sequence[Member], most: int) -> Iterator[list[Member]]:
    """In order, as many at once as fit in `most` bytes, but at least one."""
    group: list[Member] = []
    held = 0
    for member in members:
        size = _bytes(member[1])
        if group and held + size > most:
            yield group
            group, held = [], 0
        group.append(member)
        held += size
    if group:
        yield group


def placed(memory: Tensor, group: Sequence[Member]) -> Iterator[tuple[dict[str, Any], dict[str, Tensor]]]:
    """For each member its state, with those of _NAMES in the buffer; and the latter alone."""
    at = 0
    for _, state in group:
        there = {}
        for name in _NAMES:
            if name in state:
                held = state[name]
                there[name] = memory[at : at + held.nbytes].view(held.dtype).view(held.shape)
                at += -(-held.nbytes // _ALIGNED) * _ALIGNED
        yield {**state, **there}, there


class _Slot:
    """A buffer on the GPU, and when it is filled, used and empty again."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.memory = torch.empty(size, dtype=torch.uint8, device=device)
        self.ready, self.done, self.free = (torch.cuda.Event() for _ in range(3))


class Pages:
    """What one GPU holds of paged states."""

    def __init__(self, device: torch.device, most: int) -> None:
        self.device, self.most = device, most
        self.incoming, self.outgoing = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.slots: list[_Slot] = []
        self.turn = 0

    def _ready(self, members: Sequence[Member]) -> None:
        """Two buffers, each large enough for the largest member."""
        size = max(self.most // 2, *(_bytes(state) for _, state in members))
        if not self.slots or self.slots[0].memory.numel() < size:
            self.wait()
            self.slots = [_Slot(size, self.device) for _ in range(2)]
            self.incoming.wait_stream(torch.cuda.current_stream(self.device))  # which the memory was taken on

    def step(self, rule: str, members: Sequence[Member], numbers: Step) -> None:
        with torch.cuda.device(self.device):
            self._ready(members)
            for group in grouped(members, self.slots[0].memory.numel()):
                slot = self.slots[self.turn % 2]
                self.turn += 1
                self._through(slot, group, lambda there: _many.update(rule, there, numbers))

    def _through(self, slot: _Slot, group: Sequence[Member], compute: Callable[[list[Member]], None]) -> None:
        main = torch.cuda.current_stream(self.device)
        both = list(placed(slot.memory, group))
        with torch.cuda.stream(self.incoming):
            self.incoming.wait_event(slot.free)
            for (_, state), (_, there) in zip(group, both, strict=True):
                for name, memory in there.items():
                    memory.copy_(state[name], non_blocking=True)
            slot.ready.record(self.incoming)
        main.wait_event(slot.ready)
        compute([(p, state) for (p, _), (state, _) in zip(group, both, strict=True)])
        slot.done.record(main)
        with torch.cuda.stream(self.outgoing):
            self.outgoing.wait_event(slot.done)
            for (_, state), (_, there) in zip(group, both, strict=True):
                for name, memory in there.items():
                    state[name].copy_(memory, non_blocking=True)
            slot.free.record(self.outgoing)

    def wait(self) -> None:
        """Until all states are in the host's memory again."""
        self.outgoing.synchronize()
