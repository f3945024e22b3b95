# SPDX-License-Identifier: MIT
"""What a 64-bit little-endian shared library asks of the system that loads it, what it offers, what it is made of."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.targets import Version

_PT_LOAD, _PT_DYNAMIC = 1, 2
_SHT_NOBITS, _SHT_DYNSYM = 8, 11
_SYMBOL = struct.calcsize("<IBBHQQ")
_DT_NULL, _DT_NEEDED, _DT_STRTAB = 0, 1, 5
_DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF


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
    link: int


@dataclass(frozen=True)
class Symbol:
    """A dynamic symbol that this library defines; `address` as the loader sees it."""

    name: str
    address: int
    size: int
    is_global: bool


class _Image:
    """The file as the loader sees it: addresses, not offsets."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit little-endian ELF file")
        self.data = data
        start, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", data, start + i * size) for i in range(count)]

    def offset(self, address: int) -> int:
        for kind, _, offset, base, _, size, _, _ in self.segments:
            if kind == _PT_LOAD and base <= address < base + size:
                return int(offset + address - base)
        raise ValueError(f"address {address:#x} is in no segment")

    def dynamic(self) -> list[tuple[int, int]]:
        entries = []
        for kind, _, offset, _, _, size, _, _ in self.segments:
            if kind != _PT_DYNAMIC:
                continue
            for tag, value in struct.iter_unpack("<qQ", self.data[offset : offset + size - size % 16]):
                if tag == _DT_NULL:
                    break
                entries.append((tag, value))
        if not entries:
            raise ValueError("it has no dynamic section")
        return entries

    def text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode("ascii")


def _versions(image: _Image, address: int, count: int, strings: int) -> list[tuple[str, str]]:
    """The chain of needed versions: one record a library, each with its own chain."""
    found = []
    at = image.offset(address)
    for _ in range(count):
        _, names, file, first, following = struct.unpack_from("<HHIII", image.data, at)
        inner = at + first
        for _ in range(names):
            _, _, _, name, step = struct.unpack_from("<IHHII", image.data, inner)
            found.append((image.text(strings + file), image.text(strings + name)))
            inner += step
        at += following
    return found


def parse(data: bytes) -> Needs:
    """What this shared library needs; ValueError if it is not one."""
    try:
        image = _Image(data)
        entries = image.dynamic()
        tags = dict(entries)
        strings = image.offset(tags[_DT_STRTAB])
        versions = []
        if _DT_VERNEED in tags:
            versions = _versions(image, tags[_DT_VERNEED], tags[_DT_VERNEEDNUM], strings)
        libraries = tuple(image.text(strings + value) for tag, value in entries if tag == _DT_NEEDED)
        return Needs(libraries, tuple(sorted(set(versions))))
    except (struct.error, KeyError, IndexError, OverflowError) as error:
        raise ValueError(f"its dynamic section is cut off or wrong ({error})") from None


def needs(path: Path) -> Needs:
    try:
        return parse(path.read_bytes())
    except ValueError as error:
        raise GateError(f"{path}: {error}; it cannot be checked, so it is not packed") from None


def sections(data: bytes) -> tuple[Section, ...]:
    """Every section in the file's order; ValueError if the headers are wrong or stripped away."""
    try:
        (start,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        if data[:6] != b"\x7fELF\x02\x01" or size != 64 or not count:
            raise ValueError("not a 64-bit little-endian ELF file with section headers")
        raw = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
        table = raw[names][4]
        return tuple(
            Section(
                name=data[table + name : data.index(b"\0", table + name)].decode("ascii"),
                kind=kind,
                address=address,
                data=b"" if kind == _SHT_NOBITS else data[offset : offset + length],
                link=link,
            )
            for name, kind, _, address, offset, length, link, _, _, _ in raw
        )
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"its section headers are cut off or wrong ({error})") from None


def defined(data: bytes) -> tuple[Symbol, ...]:
    """The dynamic symbols that are defined here, by address; ValueError if they cannot be read."""
    parts = sections(data)
    table = next((part for part in parts if part.kind == _SHT_DYNSYM), None)
    if table is None:
        raise ValueError("it has no dynamic symbols")
    if table.link >= len(parts) or len(table.data) % _SYMBOL:
        raise ValueError("its dynamic symbols are cut off or have no names")
    strings = parts[table.link].data
    found = []
    for name, info, _, section, address, size in struct.iter_unpack("<IBBHQQ", table.data):
        if section:
            text = strings[name : strings.index(b"\0", name)].decode("ascii")
            found.append(Symbol(text, address, size, is_global=info >> 4 != 0))
    return tuple(sorted(found, key=lambda symbol: (symbol.address, symbol.name)))
