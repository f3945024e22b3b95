# SPDX-License-Identifier: MIT
"""What a 64-bit little-endian shared library asks of the system that loads it, what it offers, what it is made of.

What cannot be read raises ValueError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.elf import Elf, Symbol, View
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.targets import Version

_DYNSYM, _SYMBOL = 11, 24  # a section's type, and bytes of a symbol


@dataclass(frozen=True)
class Needs:
    """`libraries` in the order of the file; `versions` such as GLIBC_2.14, each with the library it is asked of."""

    libraries: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]

    @property
    def glibc(self) -> Version:
        """The highest release of the C library that any symbol asks for; 0 if none does."""
        found = [re.fullmatch(r"GLIBC_(\d+(?:\.\d+)*)", version) for _, version in self.versions]
        return max((Version.parse(match[1]) for match in found if match), default=Version((0, 0)))


@dataclass(frozen=True)
class Section:
    """`data` is empty where the file holds nothing of it."""

    name: str
    kind: int
    address: int
    data: bytes


def parse(data: bytes) -> Needs:
    """What this shared library needs."""
    elf = Elf(View(data))
    if not elf.dynamic():
        raise ValueError("it has no dynamic section")
    found = elf.needs()
    return Needs(found.libraries, found.versions)


def needs(path: Path) -> Needs:
    try:
        return parse(path.read_bytes())
    except ValueError as error:
        raise GateError(f"{path}: {error}; it cannot be checked, so it is not packed") from None


def sections(data: bytes) -> tuple[Section, ...]:
    """Every section in the file's order; ValueError where they are stripped away, too."""
    elf = Elf(View(data))
    found = elf.in_order()
    if not found:
        raise ValueError("it has no section headers")
    parts = ((one, elf.content(one)) for one in found)
    return tuple(Section(one.name, one.kind, one.address, part.take(0, part.size)) for one, part in parts)


def _symbols(data: bytes) -> list[Symbol]:
    elf = Elf(View(data))
    table = elf.sections().get(".dynsym")
    if table is None or table.kind != _DYNSYM:
        raise ValueError("it has no dynamic symbols")
    if table.size % _SYMBOL:
        raise ValueError("its dynamic symbols end within one")
    return list(elf.symbols(".dynsym"))


def defined(data: bytes) -> tuple[Symbol, ...]:
    """The dynamic symbols that are defined here, by address."""
    return tuple(sorted((one for one in _symbols(data) if one.defined), key=lambda one: (one.address, one.name)))


def asked(data: bytes) -> tuple[str, ...]:
    """The names of those that others have to bring, sorted."""
    return tuple(sorted(one.name for one in _symbols(data) if not one.defined and one.name))
