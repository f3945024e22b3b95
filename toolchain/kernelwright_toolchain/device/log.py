# SPDX-License-Identifier: MIT
"""Reads what ptxas -v writes, in the form nvcc gives it and in NVRTC's."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '([^']+)' for '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_SERIALIZED = re.compile(r"\((C75\d\d)\) Potential Performance Loss: (.*serialized.*?) in the function '([^']+)'")
_WARNING = re.compile(r"\bwarning\b", re.IGNORECASE)


@dataclass(frozen=True)
class Spills:
    """Bytes of registers that went to memory, of a kernel and the functions it calls that were not inlined."""

    stores: int = 0
    loads: int = 0


def spills(log: str) -> dict[str, Spills]:
    """kernel -> what ptxas says it spills; a kernel the log does not name is not in it."""
    found: dict[str, Spills] = {}
    kernel = ""
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            kernel = entry.group(1)
        elif kernel and (spill := _SPILLS.search(line)):
            before = found.get(kernel, Spills())
            found[kernel] = Spills(before.stores + int(spill.group(1)), before.loads + int(spill.group(2)))
    return found


def serialized(log: str) -> dict[str, str]:
    """kernel -> why ptxas has each of its wgmma wait for the one before. It says so as a mere information."""
    return {kernel: f"{why} ({code})" for code, why, kernel in _SERIALIZED.findall(log)}


def warnings(log: str) -> list[str]:
    """The lines in which a compiler warns."""
    return [line.strip() for line in log.splitlines() if _WARNING.search(line)]
