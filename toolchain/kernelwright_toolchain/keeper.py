# SPDX-License-Identifier: MIT
"""Keeps a build within its memory, whatever starts its compilers: make, ninja, setuptools, or this toolchain itself.

As many run as are started, until what they hold would leave less room than one of them may need. Then all but the
biggest are stopped (SIGSTOP), and go on once it has ended: it can always end, and what the others hold fits beside it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.device.memory import PROC, available
from kernelwright_toolchain.device.schedule import SHARE

MOST = 5_000_000_000  # bytes that one compiler may take
_SMALL = 0.1  # of the budget, for as many as there are CPUs: shells, ninja and ends of pipes are never stopped
_EVERY = 0.05  # seconds between two looks
_IDLE = 20  # looks asleep, without CPU time: it waits for another, which may be one that was stopped
_PAGE, _LEAST = os.sysconf("SC_PAGE_SIZE"), 1 << 20


@dataclass(frozen=True)
class Process:
    number: int
    began: int  # with the number, its name: numbers come again
    asleep: bool  # neither running nor wanting to: on a busy machine CPU time alone tells little
    ticks: int  # of CPU time
    size: int  # bytes in memory
    leaf: bool  # without children: what compiles, not what waits for it


def _children(number: int, proc: Path) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in (proc / str(number) / "task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def tree(root: int, proc: Path = PROC) -> Iterator[Process]:
    """This process and all below it; those that end meanwhile are left out."""
    below = _children(root, proc)
    with suppress(OSError, IndexError):
        fields = (proc / str(root) / "stat").read_text().rpartition(")")[2].split()
        ticks, size = int(fields[11]) + int(fields[12]), int(fields[21]) * _PAGE
        yield Process(root, int(fields[19]), fields[0] == "S", ticks, size, not below)
    for child in below:
        yield from tree(child, proc)


class Keeper:
    """Looks at a tree of processes. `peak` is the most that it held, `stops` how often one of them had to wait."""

    def __init__(self, root: int, budget: int, most: int = MOST) -> None:
        self.root, self.budget, self.room = root, budget, max(0, budget - most)
        self.small = max(_LEAST, int(budget * _SMALL / max(8, len(os.sched_getaffinity(0)))))
        self.peak = self.stops = 0
        self._stopped: set[int] = set()
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}  # process -> CPU time, looks since that changed

    def _waits(self, one: Process) -> bool:
        return one.number not in self._stopped and self._seen[one.number, one.began][1] >= _IDLE

    def _remember(self, leaves: list[Process]) -> None:
        seen = {}
        for one in leaves:
            ticks, looks = self._seen.get((one.number, one.began), (-1, 0))
            still = one.asleep and ticks == one.ticks and one.number not in self._stopped
            seen[one.number, one.began] = (one.ticks, looks + 1 if still else 0)
        self._seen = seen

    def chosen(self, found: list[Process]) -> set[int]:
        """Those that are to stand still."""
        leaves = [one for one in found if one.leaf and one.size >= self.small and one.number != self.root]
        leaves.sort(key=lambda one: -one.size)
        self._remember(leaves)
        whole = sum(one.size for one in found)
        self.peak = max(self.peak, whole)
        if not leaves or whole - leaves[0].size <= self.room:
            return set()
        running = next((place for place, one in enumerate(leaves) if not self._waits(one)), len(leaves))
        return {one.number for one in leaves[running + 1 :]}

    def look(self) -> None:
        self._set(self.chosen(list(tree(self.root))))

    def _set(self, wanted: set[int]) -> None:
        for number, word in [
            *((one, signal.SIGCONT) for one in self._stopped - wanted),
            *((one, signal.SIGSTOP) for one in wanted - self._stopped),
        ]:
            with suppress(ProcessLookupError, PermissionError):  # it has ended, or is another user's
                os.kill(number, word)
        self.stops += len(wanted - self._stopped)
        self._stopped = wanted

    def end(self) -> None:
        """Nothing stays stopped."""
        self._set(set())

    def __str__(self) -> str:
        waited = f", {self.stops} times a compiler waited for another's memory" if self.stops else ""
        return f"memory: {self.peak / 1e9:.1f} GB at most, of {self.budget / 1e9:.1f}{waited}"


@contextmanager
def kept(root: int, budget: int | None = None, most: int = MOST) -> Iterator[Keeper]:
    """While the block runs, what is below this process stays within the budget; else within what is available now."""
    keeper = Keeper(root, budget or int(available().size * SHARE), most)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_EVERY):
            keeper.look()
        keeper.end()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield keeper
    finally:
        done.set()
        thread.join()
