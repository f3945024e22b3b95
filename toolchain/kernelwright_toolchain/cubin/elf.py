# SPDX-License-Identifier: MIT
"""ELF64 as cubins use it. Every offset, count and name is checked: bad bytes give CubinError and nothing else."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kernelwright_toolchain.errors import KwError

NOBITS = 8
LONGEST_NAME = 8192  # a mangled template name may be long; a longer one is an attack or damage
MOST_SECTIONS = 16384


class CubinError(KwError):
    """An image is damaged, or is not what it should be."""

    exit_code = 19


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


@dataclass(frozen=True)
class Segment:
    kind: int
    flags: int
    offset: int
    size: int  # in the file
    align: int


@dataclass(frozen=True)
class Symbol:
    name: str
    binding: int  # 0 local, 1 global, 2 weak
    kind: int  # 1 object, 2 function, 3 section
    other: int
    section: int
    size: int


class Elf:
    """Header, sections and symbols of one cubin."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if self.take(0, 4) != b"\x7fELF":
            raise CubinError(f"not an ELF file: it begins with {data[:4]!r}")
        if data[4:6] != b"\x02\x01":
            raise CubinError("not a 64-bit little-endian ELF file")
        self.osabi, self.abi = data[7:9] if len(data) > 8 else (0, 0)
        header = self.unpack("<HHIQQQIHHHHHH", 16)
        self.kind, self.machine, self.version, self.flags = header[0], header[1], header[2], header[6]
        section_table, entry, count, names = header[5], header[10], header[11], header[12]
        if entry != 64:
            raise CubinError(f"section headers of {entry} bytes, not 64")
        if count > MOST_SECTIONS:
            raise CubinError(f"{count} sections; a cubin has fewer than {MOST_SECTIONS}")
        self.take(section_table, count * entry)
        raw = [self.unpack("<IIQQQQIIQQ", section_table + i * entry) for i in range(count)]
        self.sections = self._sections(raw, names)
        self.by_name = {section.name: section for section in self.sections}
        self.symbols = self._symbols()
        self._segment_table, self._segment_entry, self._segment_count = header[4], header[8], header[9]

    def take(self, offset: int, size: int) -> bytes:
        if offset < 0 or size < 0 or offset + size > len(self.data):
            raise CubinError(f"{size} bytes at {offset} lie outside the file of {len(self.data)} bytes")
        return self.data[offset : offset + size]

    def unpack(self, layout: str, offset: int) -> tuple[Any, ...]:
        return struct.unpack(layout, self.take(offset, struct.calcsize(layout)))

    def segments(self) -> tuple[Segment, ...]:
        """What a loader maps, in the file's order."""
        if self._segment_count and self._segment_entry != 56:
            raise CubinError(f"segment headers of {self._segment_entry} bytes, not 56")
        rows = (self.unpack("<IIQQQQQQ", self._segment_table + i * 56) for i in range(self._segment_count))
        return tuple(Segment(row[0], row[1], row[2], row[5], row[7]) for row in rows)

    def content(self, section: Section) -> bytes:
        return b"" if section.kind == NOBITS else self.take(section.offset, section.size)

    @staticmethod
    def _name(table: bytes, at: int) -> str:
        end = table.find(b"\0", at, at + LONGEST_NAME)
        if at >= len(table) or end < 0:
            raise CubinError(f"name at {at} of a string table of {len(table)} bytes has no end")
        try:
            return table[at:end].decode("ascii")
        except UnicodeDecodeError:
            raise CubinError(f"name at {at} of a string table is not text: {table[at:end][:40]!r}") from None

    def _sections(self, raw: list[tuple[Any, ...]], names: int) -> tuple[Section, ...]:
        if names >= len(raw):
            raise CubinError(f"the section names are said to be in section {names} of {len(raw)}")
        table = self.take(raw[names][4], raw[names][5])
        sections = []
        for name, *rest in raw:
            section = Section(self._name(table, name), *rest)
            self.content(section)  # in bounds, or an error
            sections.append(section)
        return tuple(sections)

    def _symbols(self) -> tuple[Symbol, ...]:
        table = self.by_name.get(".symtab")
        if table is None:
            raise CubinError("no symbol table")
        if table.link >= len(self.sections) or table.size % 24:
            raise CubinError(f"symbol table of {table.size} bytes with names in section {table.link} makes no sense")
        names, body = self.content(self.sections[table.link]), self.content(table)
        return tuple(
            Symbol(self._name(names, name), info >> 4, info & 15, other, section, size)
            for name, info, other, section, _value, size in struct.iter_unpack("<IBBHQQ", body)
        )
