# SPDX-License-Identifier: MIT
"""Has the installed torch the symbols that an extension wants of it?"""

from __future__ import annotations

import mmap
import re
from functools import cached_property
from typing import TYPE_CHECKING

from kernelwright.doctor.xray import _elf, _host
from kernelwright.doctor.xray._view import Damaged, View

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kernelwright.doctor.machine._machine import Machine

MOST = 8  # symbols of one extension: those of another torch differ in many


def needed(path: Path) -> tuple[str, ...]:
    """The libraries that one is linked to; none where it cannot be read."""
    try:
        with path.open("rb") as given, mmap.mmap(given.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return _elf.Elf(View(mapped)).needs().libraries
    except (OSError, ValueError, Damaged):
        return ()


def _names(path: Path) -> bytes:
    """The table of the names of a library's symbols; empty where it cannot be read."""
    try:
        with path.open("rb") as given, mmap.mmap(given.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            elf = _elf.Elf(View(mapped))
            names = elf.sections().get(".dynstr")
            return elf.content(names).take(0, names.size) if names else b""
    except (OSError, ValueError, Damaged):
        return b""


def newer_abi(path: Path) -> bool | None:
    """Whether a library of torch's takes strings as the newer of libstdc++'s two interfaces has them."""
    names = re.findall(rb"_ZN3c105ErrorC\d[^\0]*", _names(path))  # the constructor of every exception of torch's
    return any(b"__cxx11" in name for name in names) if names else None


class Offered:
    """The names that torch's libraries hold. They are searched as they lie in the files: half a million, in no time."""

    def __init__(self, machine: Machine, directory: str) -> None:
        self._files = [machine.path(name) for name in machine.find(f"{directory}/lib*.so") if machine.is_file(name)]

    @cached_property
    def _names(self) -> list[bytes]:
        return list(filter(None, map(_names, self._files)))

    def missing(self, path: Path) -> str | None:
        """A symbol of torch's C++ interface that the library wants and no library of torch has."""
        try:
            with path.open("rb") as given, mmap.mmap(given.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                wanted = sorted(_wanted(_elf.Elf(View(mapped))), key=lambda name: (len(name), name))[:MOST]
        except (OSError, ValueError, Damaged):
            return None
        if not wanted or not self._names:
            return None
        for name in wanted:
            if not any(name.encode() + b"\0" in names for names in self._names):
                return name
        return None


def _wanted(elf: _elf.Elf) -> Iterator[str]:
    """Undefined, and not weak: those may stay undefined."""
    for one in elf.symbols(".dynsym"):
        if not one.defined and not one.weak and _host.is_torchs(one.name):
            yield one.name
