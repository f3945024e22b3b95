# SPDX-License-Identifier: MIT
"""A build's memory is kept within its budget: trees of processes that really take memory, stopped and going on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelwright_toolchain import keeper
from kernelwright_toolchain.classic import run

MB = 1_000_000
BUDGET, MOST = 600 * MB, 220 * MB  # of all, of one
COUNT = 4
# Takes memory as a compiler does, bit by bit and with work in between; each page is written.
GROWS = """import sys, time
held = []
for _ in range(int(sys.argv[1])):
    held.append(bytearray(b"x") * 1_000_000)
    time.sleep(0.01)
time.sleep(0.1)
"""
# As make does: a shell for each, all at once.
MAKES = """import subprocess, sys
words = [sys.executable, "-S", "-c", sys.argv[1], sys.argv[2]]
all = [subprocess.Popen(["sh", "-c", '"$@" && true', "sh", *sys.argv[4:], *words]) for _ in range(int(sys.argv[3]))]
sys.exit(sum(one.wait() for one in all))
"""
NAMESPACE = ("unshare", "--pid", "--mount", "--fork", "--kill-child")


def size(root: int) -> int:
    return sum(one.size for one in keeper.tree(root))


@contextmanager
def tallest(root: int) -> Iterator[list[int]]:
    """What the tree held at most, asked by another than the keeper and more often."""
    found, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            found[0] = max(found[0], size(root))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def built(budget: int | None, *before: str, most: int = MOST, count: int = COUNT) -> tuple[int, keeper.Keeper | None]:
    """The most that a build of so many compilers of 200 MB held, all of which must end well."""
    words = [sys.executable, "-S", "-c", MAKES, GROWS, "200", str(count), *before]
    with subprocess.Popen(words) as process, tallest(process.pid) as found:
        if budget is None:
            assert process.wait(120) == 0
            return found[0], None
        with keeper.kept(process.pid, budget, most) as own:
            assert process.wait(120) == 0
    return found[0], own


def test_without_it_the_same_build_takes_more():
    assert built(None)[0] > 1.1 * BUDGET


def test_what_compilers_hold_stays_within_a_tenth_of_the_budget():
    most, own = built(BUDGET)
    assert most <= 1.1 * BUDGET, (most, str(own))
    assert own.stops > 0
    assert own.peak <= most * 1.05
    assert "compiler waited for another's memory" in str(own)


def test_where_there_is_room_for_all_nothing_waits():
    most, own = built(3 * COUNT * MOST)
    assert own.stops == 0
    assert most > 1.1 * BUDGET
    assert "waited" not in str(own)


def test_one_that_takes_more_than_the_budget_runs_alone_and_ends():
    most, own = built(150 * MB, most=5_000 * MB, count=2)
    assert own.stops > 0
    assert most < 330 * MB  # two at once are over 400


def test_compilers_in_namespaces_of_their_own_are_kept_too():
    if why := run.refusal():
        pytest.skip(f"no namespaces here: {why}")
    if os.geteuid() != 0:
        pytest.skip("another user makes them inside one of their own, as a build does")
    most, own = built(BUDGET, *NAMESPACE)
    assert most <= 1.1 * BUDGET
    assert own.stops > 0


# The bigger one waits for the end of a pipe, which the smaller has: as gcc -pipe. -E: unbuffered, Python loses what a
# write that was stopped did not write.
PIPE = """import subprocess, sys, time
first = subprocess.Popen([sys.executable, "-E", "-S", "-c", sys.argv[1]], stdout=subprocess.PIPE)
last = subprocess.Popen([sys.executable, "-S", "-c", sys.argv[2]], stdin=first.stdout)
sys.exit(first.wait() + last.wait())
"""
WRITES = "import time; held = bytearray(b'x') * 60_000_000; time.sleep(1); print('x' * 200_000, flush=True)"
READS = "import sys; held = bytearray(b'x') * 120_000_000; assert len(sys.stdin.read()) == 200_001"


def test_one_that_waits_for_a_stopped_one_does_not_stand_still_with_it():
    words = [sys.executable, "-S", "-c", PIPE, WRITES, READS]
    with subprocess.Popen(words) as process, keeper.kept(process.pid, 100 * MB, 100 * MB) as own:
        assert process.wait(60) == 0
    assert own.stops > 0


def interrupted(root: int) -> None:
    """A build that ends by an error after something was stopped."""
    with keeper.kept(root, 60 * MB, 60 * MB) as own:
        ends = time.monotonic() + 30
        while not own.stops and time.monotonic() < ends:
            time.sleep(0.05)
        if own.stops:
            raise KeyboardInterrupt


def test_nothing_is_left_standing():
    holds = "import time; held = bytearray(b'x') * 50_000_000; time.sleep(60)"
    words = [sys.executable, "-S", "-c", MAKES, holds, "1", "3"]
    with subprocess.Popen(words, start_new_session=True) as process:
        try:
            with pytest.raises(KeyboardInterrupt):
                interrupted(process.pid)
            stats = [Path(f"/proc/{one.number}/stat").read_text() for one in keeper.tree(process.pid)]
            assert len(stats) >= 4
            assert "T" not in {text.rpartition(")")[2].split()[0] for text in stats}
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_it_is_looked_at_whole_and_what_ends_meanwhile_is_left_out():
    if not shutil.which("sleep"):
        pytest.skip("there is no sleep here")
    with subprocess.Popen(["sh", "-c", "sleep 30 & sleep 30 & wait"], start_new_session=True) as process:
        try:
            ends = time.monotonic() + 30
            while len(list(keeper.tree(process.pid))) < 3 and time.monotonic() < ends:
                time.sleep(0.02)
            found = list(keeper.tree(process.pid))
            assert [one.leaf for one in found] == [False, True, True]
            assert found[0].number == process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert list(keeper.tree(process.pid)) == []
