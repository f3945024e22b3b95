# SPDX-License-Identifier: MIT
"""Two builds under different circumstances, and a third on top of the first's leavings: the same bytes or why not."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from kernelwright_toolchain.exact import conditions, rebuild, wheel
from kernelwright_toolchain.exact.compare import compare
from kernelwright_toolchain.exact.wheel import Difference, Wheel


def _said(what: str, work: Callable[[], Path]) -> Wheel:
    started = time.monotonic()
    path = work()
    made = wheel.read(path)
    print(
        f"{what}: {made.name}\n  sha256 {made.sha256}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True
    )
    return made


def repro(
    tree: Path, settings: Mapping[str, str], *, jobs: int | None, quick: bool
) -> tuple[str, list[Difference], int]:
    """The sha256 of the first build, every difference to it, and how many members were compared.

    `quick`: no interpreter whose tools would have to be fetched first.
    """
    first, second = conditions.pair(jobs=jobs, quick=quick, provider=settings["provider"])
    print(conditions.table(first, second), file=sys.stderr, flush=True)
    with rebuild.scratch() as base:

        def build(at: conditions.Conditions, *, backwards: bool, out: str) -> Path:
            tools = rebuild.provision(tree, settings, at.python)
            copy = rebuild.lay_out(tree, base, tools, at, backwards=backwards)
            return rebuild.build(copy, settings, at, tools, base / out)

        def again() -> Path:
            tools = rebuild.provision(tree, settings, first.python)
            at = replace(first, jobs=second.jobs, umask=second.umask)
            return rebuild.build(base / first.folder, settings, at, tools, base / "3")

        one = _said("first, nothing cached", lambda: build(first, backwards=False, out="1"))
        two = _said("second, nothing cached", lambda: build(second, backwards=True, out="2"))
        three = _said("first again, on its cache and its build directory", again)
    return one.sha256, [*compare(two, one), *compare(three, one)], len(one.members)
