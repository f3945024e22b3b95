# SPDX-License-Identifier: MIT
"""Timing on the CPU: batches of calls over many working sets, in turns."""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kernelwright import _library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_SETS = 4096
FEWEST_CALLS = 4  # in a batch
MOST_BYTES = 1 << 30  # of all working sets: some machines report a last-level cache that they share with many others
BATCH_SECONDS = 0.01
PAUSE_SECONDS = 0.01  # idle OpenMP threads have stopped spinning by then
WARM_SECONDS = 0.005  # after a pause calls take up to half as long again for a while


def _last_level_cache() -> int:
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) * 1024 for size in sizes if size.endswith("K")), default=32 << 20)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_KEPT_BYTES = 32 << 20  # blocks up to here: the most that mallopt takes


def keep_freed_memory() -> bool:
    """Has malloc keep what is freed, as it does by itself only later, by the sizes it has seen; False where it cannot.

    Until then a contestant pays for fresh pages, or does not, by its place in the order. On a machine whose host takes
    pages back these are ten times what its call takes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(mallopt and mallopt(_TRIM_THRESHOLD, 2**31 - 1) and mallopt(_MMAP_THRESHOLD, _KEPT_BYTES))


class Batches:
    """A contestant's calls; each batch goes on with the working set that follows the last batch's."""

    def __init__(self, calls: list[Callable[[], Any]], seconds: float = BATCH_SECONDS) -> None:
        self._next = self._forever(calls)
        self.repeat, self._seconds = 1, seconds
        self.samples: list[float] = []

    @staticmethod
    def _forever(calls: list[Callable[[], Any]]) -> Iterator[Callable[[], Any]]:
        while True:
            yield from calls

    def settle(self) -> float:
        """Runs once to be warm, and finds how many calls make a batch; microseconds that one takes."""
        self.run()
        self.repeat = max(1, int(self._seconds * 1e6 / (us := self.run())))
        return us * self.repeat

    def run(self) -> float:
        """Microseconds a call, its result freed each time, as a user's is."""
        warm = max(1, round(self.repeat * WARM_SECONDS / self._seconds))
        before, calls = ([next(self._next) for _ in range(count)] for count in (warm, self.repeat))
        time.sleep(PAUSE_SECONDS)
        for call in before:
            call()
        start = time.perf_counter()
        for call in calls:
            call()
        return (time.perf_counter() - start) * 1e6 / self.repeat


class Cpu:
    kind = "cpu"

    def __init__(self, threads: int | None) -> None:
        if threads:
            torch.set_num_threads(threads)
        keep_freed_memory()
        self.threads, self.cache = torch.get_num_threads(), _last_level_cache()
        self.isa = _library.load().text("kw_cpu_isa")
        self.name = f"cpu {self.isa}"

    def facts(self) -> dict[str, Any]:
        model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        name = model[0].partition(":")[2].strip() if model else os.uname().machine
        return {"device": name, "instructions": self.isa, "threads": self.threads, "cache": self.cache}

    def sets(self, bytes_: int) -> int:
        return max(1, min(MOST_SETS, -(-min(2 * self.cache, MOST_BYTES) // bytes_)))

    def calls(self, _bytes: int, _flops: int) -> int:
        return FEWEST_CALLS

    def memory(self) -> int:
        known = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(known["MemAvailable"].split()[0]) * 1024

    def copy(self, bytes_: int, sets: int) -> list[Callable[[], Any]]:
        """Allocates and fills half of the bytes from the other half; in turn as many bytes as all sets have."""
        sources = [torch.ones(max(1, bytes_ // 8)) for _ in range(2 * sets)]
        return [source.clone for source in sources]

    def times(
        self, contestants: dict[str, Callable[[], list[Callable[[], Any]]]], rounds: int
    ) -> tuple[dict[str, float], dict[str, str]]:
        batches = {name: Batches(prepare()) for name, prepare in contestants.items()}
        for batch in batches.values():
            batch.settle()
        for _ in range(rounds):
            for batch in batches.values():
                batch.samples.append(batch.run())
        return {name: statistics.median(batch.samples) for name, batch in batches.items()}, {}

    def clean(self) -> None:
        return
