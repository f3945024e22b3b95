# SPDX-License-Identifier: MIT
"""Runs jobs side by side, as many as may and as fit into memory, biggest first."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kernelwright_toolchain.device.environment import JobLimit
    from kernelwright_toolchain.device.memory import Budget

UNKNOWN_PEAK = 1 << 30  # for a job nobody has run yet
MARGIN = 1.2  # a changed source may need more than its predecessor
SHARE = 0.9  # of what is available; the rest is this process and what the machine does meanwhile

T = TypeVar("T")


@dataclass(frozen=True)
class Task(Generic[T]):
    """`peak` is what it took last time, None if it never ran."""

    run: Callable[[], T]
    peak: int | None = None

    @property
    def need(self) -> int:
        return UNKNOWN_PEAK if self.peak is None else int(self.peak * MARGIN)


def describe(limit: JobLimit, budget: Budget, tasks: Sequence[Task[T]]) -> str:
    """One line: how many run at once, and which limit decides that."""
    needs = sorted((task.need for task in tasks), reverse=True)
    room, fits = int(budget.size * SHARE), 0
    while fits < len(needs) and needs[fits] <= room:
        room -= needs[fits]
        fits += 1
    at_once = max(1, min(limit.count, fits, len(tasks)))
    memory = f"memory {budget.size / (1 << 30):.1f} GB ({budget.source})"
    room_for = "all" if fits == len(tasks) else str(fits)
    if at_once == len(tasks):
        why = f"no limit reached; {limit.source}, {memory}"
    elif at_once == limit.count:
        why = f"limited by {limit.source}; {memory} has room for {room_for}"
    else:
        why = f"limited by {memory}; {limit.source} would allow more"
    return f"compiling {len(tasks)} image{'s' if len(tasks) > 1 else ''}, {at_once} at a time: {why}"


class _Pool(Generic[T]):
    """Shared by the threads; each takes the biggest task that fits, and one task always fits if nothing runs."""

    def __init__(self, tasks: Sequence[Task[T]], room: int, done: Callable[[int, T], None]) -> None:
        self.tasks, self.done = tasks, done
        self.waiting = sorted(range(len(tasks)), key=lambda i: -tasks[i].need)
        self.room, self.running = room, 0
        self.errors: dict[int, BaseException] = {}
        self.changed = threading.Condition()

    def _next(self) -> int | None:
        for index in self.waiting:
            if self.running == 0 or self.tasks[index].need <= self.room:
                return index
        return None

    def work(self) -> None:
        while True:
            with self.changed:
                while self.waiting and self._next() is None:
                    self.changed.wait()
                index = self._next()
                if index is None or self.errors:
                    return
                self.waiting.remove(index)
                self.running += 1
                self.room -= self.tasks[index].need
            self._run(index)

    def _unfinished(self) -> bool:
        return self.running > 0 or bool(self.waiting and not self.errors)

    def wait(self) -> bool:
        """For a moment; True once nothing runs and nothing more will.

        Not by joining threads, since an interrupted join forgets its thread; and for a moment only, since a signal that
        another thread takes does not wake this one.
        """
        with self.changed:
            return self.changed.wait_for(lambda: not self._unfinished(), 0.1)

    def give_up(self) -> None:
        """Nothing more starts."""
        with self.changed:
            self.waiting.clear()
            self.changed.notify_all()

    def _run(self, index: int) -> None:
        error: BaseException | None = None
        try:
            result = self.tasks[index].run()
            with self.changed:
                self.done(index, result)
        except BaseException as caught:  # noqa: BLE001 -- raised again in the caller's thread
            error = caught
        with self.changed:
            if error:
                self.errors[index] = error
            self.running -= 1
            self.room += self.tasks[index].need
            self.changed.notify_all()


def run_all(
    tasks: Sequence[Task[T]],
    limit: int,
    budget: int,
    done: Callable[[int, T], None],
    stop: Callable[[], None] = lambda: None,
) -> None:
    """Runs every task; `done(index, result)` is called for each as it ends, one at a time.

    After a failure nothing new starts, what runs ends, and the failure of the earliest task is raised. An interrupt
    calls `stop`, which should end what runs.
    """
    pool = _Pool(tasks, int(budget * SHARE), done)
    try:
        for _ in range(min(limit, len(tasks))):
            threading.Thread(target=pool.work, daemon=True).start()
        while not pool.wait():
            pass
    except BaseException:
        pool.give_up()
        stop()
        while not pool.wait():  # a thread may have been about to start something
            stop()
        raise
    if pool.errors:
        raise pool.errors[min(pool.errors)]
