# SPDX-License-Identifier: MIT
"""How much a build by pip's compilers fetches, in all and before it begins: somebody may be on a slow line."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path

from kernelwright_toolchain.locking.wanted import lock_of
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import nvrtc, pip
from kernelwright_toolchain.providers.pick import machine_of
from kernelwright_toolchain.targets import Table, Toolkit

LINES = (100, 20)  # megabits a second: what many offices and many homes have


def size(table: Table, toolkit: Toolkit | None, groups: Iterable[str]) -> int:
    """Bytes of what is not in .kw/tools: the toolkit's compiler, the tools, and the locks of these groups."""
    machine = machine_of(table)
    tools = project().data(table.tools.locks[machine])
    locks: list[tuple[Path, bool]] = [(tools, True), *((lock_of(name), False) for name in groups)]
    if toolkit and not nvrtc.here(toolkit, machine):
        locks.append((project().data(toolkit.locks[machine]), False))
    return sum(pip.to_fetch(lock, pip.home(lock, per_python=each)) for lock, each in locks)


def told(total: int) -> str:
    """The line for that many bytes; "" for none."""
    if not total:
        return ""
    times = " or ".join(f"{math.ceil(8 * total / (rate * 1e6)):,} s at {rate} Mbit/s" for rate in LINES)
    return f"to fetch, once: {total / 1e6:,.0f} MB into .kw/tools; {times}"


def announce(table: Table, toolkit: Toolkit | None, groups: Iterable[str]) -> None:
    """Says it, if there is anything to fetch. `toolkit`: the one whose NVRTC is wanted."""
    if line := told(size(table, toolkit, groups)):
        print(line, file=sys.stderr, flush=True)
