# SPDX-License-Identifier: MIT
"""A cubin's ELF, read whole: bad bytes give CubinError and nothing else."""

from __future__ import annotations

from kernelwright_toolchain import elf
from kernelwright_toolchain.elf import MAGIC, NOBITS, Damaged, Section, Segment, Symbol, View
from kernelwright_toolchain.errors import KwError

__all__ = ["NOBITS", "CubinError", "Elf", "Section", "Segment"]


class CubinError(KwError):
    """An image is damaged, or is not what it should be."""

    exit_code = 19


class Elf:
    """Header, sections and symbols of one cubin."""

    def __init__(self, data: bytes) -> None:
        try:
            view = View(data)
            if (begins := view.take(0, 4)) != MAGIC:
                raise CubinError(f"not an ELF file: it begins with {begins!r}")
            self._elf = elf.Elf(view)
            self.osabi, self.abi, self.kind = self._elf.osabi, self._elf.abi, self._elf.kind
            self.machine, self.version, self.flags = self._elf.number, self._elf.version, self._elf.flags
            self.sections = self._elf.in_order()
            self.by_name = {section.name: section for section in self.sections}
            self.symbols = self._symbols()
        except Damaged as error:
            raise CubinError(str(error)) from None

    def _symbols(self) -> tuple[Symbol, ...]:
        table = self.by_name.get(".symtab")
        if table is None:
            raise CubinError("no symbol table")
        if table.size % 24:
            raise CubinError(f"symbol table of {table.size} bytes makes no sense")
        found = tuple(self._elf.symbols(".symtab"))
        for name in (*self.by_name, *(symbol.name for symbol in found)):
            if not name.isascii() or "\\" in name:  # how the reader shows what is no text
                raise CubinError(f"a name in a string table is not text: {name[:40]!r}")
        return found

    def segments(self) -> tuple[Segment, ...]:
        """What a loader maps, in the file's order."""
        try:
            return self._elf.segments()
        except Damaged as error:
            raise CubinError(str(error)) from None

    def content(self, section: Section) -> bytes:
        part = self._elf.content(section)
        return part.take(0, part.size)
