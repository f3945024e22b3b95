# SPDX-License-Identifier: MIT
"""64-bit little-endian ELF, of libraries and cubins: sections, segments, what a library asks of the system, symbols.

The toolchain reads by this file too, under a name of its own (toolchain/kernelwright_toolchain/elf.py): of kernelwright
it may import what lies beside it alone, and by its relative name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ._view import Damaged, View

MAGIC = b"\x7fELF"
MACHINES = {62: "x86_64", 183: "aarch64", 190: "CUDA", 243: "riscv64", 21: "ppc64le"}
GPU = 190

NOBITS = 8
_EXECUTABLE = 4
_LOCAL, _WEAK = 0, 2
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 10, 14, 15, 29
_DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF

_MOST_DYNAMIC = 4096
_MOST_VERSIONS = 4096
_MOST_SYMBOLS = 2_000_000


@dataclass(frozen=True)
class Section:
    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int

    @property
    def executable(self) -> bool:
        return bool(self.flags & _EXECUTABLE)


@dataclass(frozen=True)
class Segment:
    kind: int
    flags: int
    offset: int
    address: int
    size: int  # in the file
    align: int


@dataclass(frozen=True)
class Needs:
    """`versions` such as GLIBC_2.14, each with the library it is asked of."""

    libraries: tuple[str, ...] = ()
    soname: str | None = None
    paths: tuple[str, ...] = ()
    """Of RUNPATH, or of the older RPATH where there is no RUNPATH, as they are written."""
    versions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Symbol:
    name: str
    kind: int
    other: int
    section: int
    address: int = 0
    size: int = 0
    binding: int = 1

    @property
    def defined(self) -> bool:
        return self.section != 0

    @property
    def weak(self) -> bool:
        return self.binding == _WEAK

    @property
    def is_global(self) -> bool:
        return self.binding != _LOCAL


class Unusual(Damaged):
    """A form of ELF that is right and rare: of 32 bits, or with more sections than its header can count."""


class Elf:
    """The header is read at once, everything else when it is asked for."""

    def __init__(self, view: View) -> None:
        head = view.take(0, min(6, view.size))
        if head == MAGIC + b"\x01\x01":
            raise Unusual("it is an ELF file of 32 bits")
        if head != MAGIC + b"\x02\x01":
            raise Damaged("it is not a 64-bit little-endian ELF file")
        self.view = view
        self.osabi, self.abi = view.take(7, 2)
        header = view.unpack("<HHIQQQIHHHHHH", 16)
        self.kind, self.number, self.version, self.flags = header[0], header[1], header[2], header[6]
        self.machine = MACHINES.get(self.number, f"ELF machine {self.number}")
        self._segments_at, self._segments = header[4], (header[8], header[9])
        self._sections_at, self._sections, self._names = header[5], (header[10], header[11]), header[12]

    def in_order(self) -> tuple[Section, ...]:
        """As the file numbers them; none where they were stripped away."""
        entry, count = self._sections
        if not count and self._sections_at:
            raise Unusual("it has more sections than its header can count")
        if not count:
            return ()
        if entry != 64:
            raise Damaged(f"section headers of {entry} bytes, not 64")
        raw = list(struct.iter_unpack("<IIQQQQIIQQ", self.view.take(self._sections_at, 64 * count)))
        if self._names >= count:
            raise Damaged(f"the section names are said to be in section {self._names} of {count}")
        table = self.view.window(raw[self._names][4], raw[self._names][5])
        found = tuple(Section(table.text(name) if name or table.size else "", *rest) for name, *rest in raw)
        for section in found:
            self.content(section)  # in bounds, or an error
        return found

    def sections(self) -> dict[str, Section]:
        """By name, the last of a name."""
        return {section.name: section for section in self.in_order()}

    def content(self, section: Section) -> View:
        return self.view.window(0, 0) if section.kind == NOBITS else self.view.window(section.offset, section.size)

    def segments(self) -> tuple[Segment, ...]:
        """What a loader maps, in the file's order."""
        entry, count = self._segments
        if count and entry != 56:
            raise Damaged(f"program headers of {entry} bytes, not 56")
        rows = struct.iter_unpack("<IIQQQQQQ", self.view.take(self._segments_at, 56 * count))
        return tuple(Segment(row[0], row[1], row[2], row[3], row[5], row[7]) for row in rows)

    def cut(self) -> str | None:
        """What the loader would map and the file does not have, if any: it ends there, or the process does later."""
        for part in self.segments():
            if part.kind == _PT_LOAD and part.offset + part.size > self.view.size:
                return f"its loaded part ends at byte {part.offset + part.size}, the file at {self.view.size}"
        return None

    def dynamic(self) -> list[tuple[int, int]]:
        """(tag, value) of the dynamic section; none for a file without one."""
        entries: list[tuple[int, int]] = []
        for part in self.segments():
            if part.kind != _PT_DYNAMIC:
                continue
            taken = min(part.size // 16, _MOST_DYNAMIC) * 16
            for tag, value in struct.iter_unpack("<QQ", self.view.take(part.offset, taken)):
                if tag == _DT_NULL:
                    return entries
                entries.append((tag, value))
        return entries

    def needs(self) -> Needs:
        """What the dynamic section asks for; empty for a file without one."""
        segments = self.segments()

        def place(address: int) -> int:
            for part in segments:
                if part.kind == _PT_LOAD and part.address <= address < part.address + part.size:
                    return part.offset + address - part.address
            raise Damaged(f"address {address:#x} is in no segment")

        entries = self.dynamic()
        tags = dict(entries)
        if _DT_STRTAB not in tags:
            return Needs()
        start = place(tags[_DT_STRTAB])
        strings = self.view.window(start, min(tags.get(_DT_STRSZ, 0), self.view.size - start))
        every = {
            tag: [strings.text(value) for one, value in entries if one == tag]
            for tag in (_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH)
        }
        paths = every[_DT_RUNPATH] or every[_DT_RPATH]
        versions: set[tuple[str, str]] = set()
        if _DT_VERNEED in tags:
            versions = set(self._versions(place(tags[_DT_VERNEED]), tags.get(_DT_VERNEEDNUM, 0), strings))
        return Needs(
            libraries=tuple(every[_DT_NEEDED]),
            soname=next(iter(every[_DT_SONAME]), None),
            paths=tuple(part for path in paths for part in path.split(":") if part),
            versions=tuple(sorted(versions)),
        )

    def _versions(self, at: int, libraries: int, strings: View) -> Iterator[tuple[str, str]]:
        """The chain of needed versions: one record a library, each with its own. Steps may lead in circles."""
        left = _MOST_VERSIONS
        for _ in range(min(libraries, _MOST_VERSIONS)):
            _, names, file, first, following = self.view.unpack("<HHIII", at)
            inner = at + first
            for _ in range(names):
                left -= 1
                if left < 0:
                    raise Damaged(f"more than {_MOST_VERSIONS} symbol versions")
                _, _, _, name, step = self.view.unpack("<IHHII", inner)
                yield strings.text(file), strings.text(name)
                inner += step
            if not following:
                return
            at += following

    def symbols(self, table: str) -> Iterator[Symbol]:
        """Of .dynsym or .symtab; of none where there is no such section."""
        order = self.in_order()
        found = {section.name: section for section in order}.get(table)
        if found is None:
            return
        if found.link >= len(order):
            raise Damaged(f"{table} has its names in section {found.link} of {len(order)}")
        names, count = self.content(order[found.link]), found.size // 24
        if count > _MOST_SYMBOLS:
            raise Damaged(f"{table} claims {count} symbols")
        rows = struct.iter_unpack("<IBBHQQ", self.view.take(found.offset, 24 * count))
        for name, info, other, section, address, size in rows:
            yield Symbol(names.text(name) if name else "", info & 15, other, section, address, size, info >> 4)
