# SPDX-License-Identifier: MIT
"""Writes small CUDA files as nvcc and linkers write them: fat binaries, cubins, libraries, wheels."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KINDS = {"ptx": 1, "sass": 2, "lto": 8}
SUFFIXES = {"": 0, "a": 0x100000, "f": 0x200000}
PACKINGS = {None: 0, "lz4": 0x2000, "zstd": 0x8000}
MACHINES = {"x86_64": 62, "aarch64": 183, "CUDA": 190}


@dataclass(frozen=True)
class Image:
    """One image of a fat binary; `arch` such as "90a"."""

    kind: str
    arch: str
    body: bytes = b"\x7fELF-not-really"
    packing: str | None = None
    unpacked: int = 0
    version: tuple[int, int] = (1, 7)
    header: int = 64

    def bytes(self) -> bytes:
        number, suffix = self.arch.rstrip("af"), self.arch[len(self.arch.rstrip("af")) :]
        padded = self.body + bytes(-len(self.body) % 8)
        flags = 0x11 | SUFFIXES[suffix] | PACKINGS[self.packing]
        head = struct.pack("<HHIQIIHHIIIQQQ", KINDS[self.kind], 0x101, self.header, len(padded),
                           len(self.body) if self.packing else 0, 0, self.version[1], self.version[0], int(number), 0, 0, flags,
                           0, self.unpacked)  # fmt: skip
        return head + bytes(self.header - 64) + padded


def container(*images: Image) -> bytes:
    body = b"".join(image.bytes() for image in images)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def sass(*archs: str, **more) -> list[Image]:
    return [Image("sass", arch, **more) for arch in archs]


def ptx(arch: str, version: tuple[int, int] = (8, 2), **more) -> Image:
    return Image("ptx", arch, b".version", version=version, **more)


class _Strings:
    """A string table that remembers where each string is."""

    def __init__(self) -> None:
        self.data, self.places = b"\0", {"": 0}

    def __call__(self, text: str) -> int:
        if text not in self.places:
            self.places[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self.places[text]


def _elf(
    machine: str, sections: list[tuple[str, int, int, bytes, int]], *, kind=3, flags=0, abi=(0, 0), dynamic=None
) -> bytes:
    """An ELF file of (name, type, flags, content, link); everything lies where its address says."""
    names, headers, body = _Strings(), [bytes(64)], b""
    segments = 2 if dynamic else 0
    start = 64 + 56 * segments
    places = {}
    names(".shstrtab")
    for name, what, attributes, given, link in [*sections, (".shstrtab", 3, 0, None, 0)]:
        at, name_at = start + len(body), names(name)
        content = names.data if given is None else given
        places[name] = at, len(content)
        headers.append(struct.pack("<IIQQQQIIQQ", name_at, what, attributes, at, at, len(content), link, 0, 8, 0))
        body += content + bytes(-len(content) % 8)
    total = start + len(body) + 64 * len(headers)
    segment = b""
    if dynamic:
        at, size = places[".dynamic"]
        segment = struct.pack("<IIQQQQQQ", 1, 7, 0, 0, 0, total, total, 4096) + struct.pack(
            "<IIQQQQQQ", 2, 6, at, at, at, size, size, 8
        )
    head = struct.pack("<4sBBBBB7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, *abi, kind, MACHINES[machine], 1, 0, 64 if dynamic else 0,
                       start + len(body), flags, 64, 56, segments, 64, len(headers), len(headers) - 1)  # fmt: skip
    return head + segment + body + b"".join(headers)


@dataclass(frozen=True)
class Library:
    """A shared library. `versions`: library to the symbol versions asked of it; `wants`: undefined symbols."""

    machine: str = "x86_64"
    fat: bytes = b""
    anew: bytes = b""
    needed: tuple[str, ...] = ("libc.so.6",)
    runpath: str = ""
    soname: str = ""
    versions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    wants: tuple[str, ...] = ()
    texts: bytes = b""
    stubs: bool = False

    def bytes(self) -> bytes:
        strings = _Strings()
        tags = [(1, strings(name)) for name in self.needed]
        tags += [(14, strings(self.soname))] if self.soname else []
        tags += [(29, strings(self.runpath))] if self.runpath else []
        versions = b""
        for number, (library, names) in enumerate(self.versions):
            last = number == len(self.versions) - 1
            versions += struct.pack("<HHIII", 1, len(names), strings(library), 16, 0 if last else 16 + 16 * len(names))
            for place, name in enumerate(names):
                versions += struct.pack("<IHHII", 0, 0, 2, strings(name), 0 if place == len(names) - 1 else 16)
        symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", strings(name), 0x12, 0, 0, 0, 0) for name in self.wants)
        # The dynamic section names places that are known only when it has its size: so it is made twice.
        made = b""
        for _ in range(2):
            places = {name: _place(made, name) for name in (".dynstr", ".gnu.version_r")} if made else {}
            every = [*tags, (5, places.get(".dynstr", 0)), (10, len(strings.data)), (0x6FFFFFFE, places.get(".gnu.version_r", 0)),
                     (0x6FFFFFFF, len(self.versions)), (0, 0)]  # fmt: skip
            every = every if self.versions else [pair for pair in every if pair[0] < 0x6FFFFFFE]
            sections = [
                (".dynstr", 3, 2, strings.data, 0),
                (".dynsym", 11, 2, symbols, 1),
                (".gnu.version_r", 0x6FFFFFFE, 2, versions, 1),
                (".dynamic", 6, 3, b"".join(struct.pack("<QQ", *pair) for pair in every), 1),
                (".rodata", 1, 2, self.texts, 0),
                (".text", 1, 6, b"\xc3" * 16, 0),
                (".comment", 1, 0, b"GCC: (GNU) 12.4.0\0", 0),
            ]
            sections += [(".nv_fatbin", 1, 2, self.fat, 0)] if self.fat else []
            sections += [("__nv_relfatbin", 1, 2, self.anew, 0)] if self.anew else []
            sections += [(".nvFatBinSegment", 1, 2, bytes(24), 0)] if self.stubs else []
            made = _elf(self.machine, sections, dynamic=True)
        return made


def _place(elf: bytes, wanted: str) -> int:
    """Where a section of a made file lies."""
    table, count = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<H", elf, 60)[0]
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + 64 * i) for i in range(count)]
    names = headers[-1][4]
    return next(one[4] for one in headers if elf[names + one[0] :].startswith(wanted.encode() + b"\0"))


def cubin(arch: str, kernels: tuple[str, ...] = ("work",), *, note: str = "", newer: bool = False) -> bytes:
    """A cubin in the older encoding of the architecture, or in the newer."""
    number, accelerated = int(arch.rstrip("af")), arch.endswith("a")
    strings = _Strings()
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", strings(name), 0x12, 0x10, 2, 0, 0) for name in kernels)
    sections = [
        (".note.nv.tkinfo", 7, 0, note.encode(), 0),
        (".text", 1, 6, bytes(16), 0),
        (".strtab", 3, 0, strings.data, 0),
        (".symtab", 2, 0, symbols, 3),
    ]
    flags = number << 8 | 8 * accelerated if newer else number | 0x800 * accelerated
    return _elf("CUDA", sections, kind=2, flags=flags, abi=(65, 8) if newer else (51, 7))


def ptx_file(arch: str, version: str = "8.2", kernels: tuple[str, ...] = ("work",), release: str = "") -> bytes:
    head = f"// Cuda compilation tools, release {release.rpartition('.')[0]}, V{release}\n" if release else ""
    body = "".join(f".visible .entry {name}(\n)\n{{\n ret;\n}}\n" for name in kernels)
    return f"{head}\n.version {version}\n.target sm_{arch}\n.address_size 64\n\n{body}".encode()


def wheel(
    path: Path,
    files: dict[str, bytes],
    tag: str = "py3-none-manylinux_2_28_x86_64",
    requires: Sequence[str] = ("torch>=2.4",),
) -> Path:
    required = "".join(f"Requires-Dist: {one}\n" for one in requires)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr("made-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        archive.writestr("made-1.0.dist-info/METADATA", f"Name: made\nVersion: 1.0\n{required}\nText: none\n")
    return path
