# SPDX-License-Identifier: MIT
"""Fat binaries: how nvcc puts code for several GPUs into one file.

A container is 16 bytes (magic, version, size of this header, size of what follows) and entries until its end. An entry
is a header of at least 64 bytes, as long as it says itself, and one image: machine code (SASS, an ELF file), PTX, or
code for link-time optimization. The header says for which GPU the image is, how it is packed, how large it is packed
and unpacked. None of this is in NVIDIA's documentation: it was read from what nvcc and fatbinary of CUDA 13 write, and
compared with what cuobjdump says of the same files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelwright.doctor.xray._view import Damaged, View

MAGIC = 0xBA55ED50
MAGIC_BYTES = MAGIC.to_bytes(4, "little")

_KINDS = {1: "ptx", 2: "sass", 8: "lto"}
_ACCELERATED, _FAMILY = 0x100000, 0x200000  # the a of 90a and the f of 100f
_LZ4, _ZSTD = 0x2000, 0x8000

_ENTRY = "<HHIQIIHHIIIQQQ"
_SMALLEST, _LARGEST = 64, 4096
MOST_ENTRIES = 100_000


@dataclass(frozen=True)
class Entry:
    """One image for one GPU."""

    kind: str
    """"sass", "ptx", "lto" or "other"."""
    arch: str
    """What comes after sm_ or compute_: digits, then `a` or `f` where it is for that GPU or its family alone."""
    version: tuple[int, int]
    """Of PTX: its language version. Of machine code: the version of its encoding."""
    packing: str | None
    """"lz4", "zstd", "unknown" or None."""
    offset: int
    size: int
    """Bytes of the image as it lies in the file, without what fills it up."""
    unpacked: int

    def moved(self, by: int) -> Entry:
        """The same, its place counted from elsewhere."""
        return replace(self, offset=self.offset + by)


def containers(view: View, *, anywhere: bool = False) -> Iterator[tuple[Entry, ...]]:
    """The containers of a section, one after another, with zeros between them.

    `anywhere`: of a whole file, in which the magic number may stand for something else.
    """
    at = view.find(MAGIC_BYTES)
    left = MOST_ENTRIES
    while at >= 0:
        _magic, version, header, size = view.unpack("<IHHQ", at)
        if version != 1 or header < 16 or header > _LARGEST:
            if anywhere:
                at = view.find(MAGIC_BYTES, at + 1)
                continue
            raise Damaged(f"the fat binary at {at} is of version {version} with a header of {header} bytes")
        body = view.window(at + header, size)
        entries = []
        for entry in _entries(body, at + header):
            left -= 1
            if left < 0:
                raise Damaged(f"more than {MOST_ENTRIES} images")
            entries.append(entry)
        yield tuple(entries)
        at = view.find(MAGIC_BYTES, at + header + size)


def _entries(body: View, base: int) -> Iterator[Entry]:
    at = 0
    while at + _SMALLEST <= body.size:
        kind, _, header, padded, packed, _, minor, major, number, _, _, flags, _, unpacked = body.unpack(_ENTRY, at)
        if not _SMALLEST <= header <= _LARGEST:
            raise Damaged(f"an image at {base + at} has a header of {header} bytes")
        body.window(at + header, padded)
        packing = "zstd" if flags & _ZSTD else "lz4" if flags & _LZ4 else "unknown" if packed else None
        if packing and packed > padded:
            raise Damaged(f"an image at {base + at} says {packed} packed bytes, and has {padded}")
        suffix = "a" if flags & _ACCELERATED else "f" if flags & _FAMILY else ""
        size = packed if packing else padded
        yield Entry(
            _KINDS.get(kind, "other"),
            f"{number}{suffix}",
            (major, minor),
            packing,
            base + at + header,
            size,
            unpacked if packing else size,
        )
        at += header + padded
