# SPDX-License-Identifier: MIT
"""Which images a library's fat binaries hold: enough to say how two differ, without unpacking any."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = struct.pack("<I", 0xBA55ED50)
_CONTAINER = "<IHHQ"  # magic, version, size of this header, size of what follows
_ENTRY = "<HHIQIIHHIIIQQQ"
_PTX, _ACCELERATED, _FAMILY = 1, 0x100000, 0x200000


@dataclass(frozen=True)
class Image:
    """`lined`: nvcc names the source in the header of images that have line tables, and of no others."""

    code: str
    lined: bool


def images(section: bytes) -> Iterator[Image]:
    """In the order of the file; what cannot be read as a container ends it."""
    at = section.find(_MAGIC)
    while 0 <= at <= len(section) - struct.calcsize(_CONTAINER):
        _, _, header, size = struct.unpack_from(_CONTAINER, section, at)
        end = min(at + header + size, len(section))
        yield from _entries(section, at + header, end)
        at = section.find(_MAGIC, max(end, at + 4))


def _entries(section: bytes, at: int, end: int) -> Iterator[Image]:
    while at + struct.calcsize(_ENTRY) <= end:
        kind, _, header, size, _, _, _, _, number, _, name, flags, _, _ = struct.unpack_from(_ENTRY, section, at)
        suffix = "a" if flags & _ACCELERATED else "f" if flags & _FAMILY else ""
        yield Image(f"{'compute' if kind == _PTX else 'sm'}_{number}{suffix}", lined=name != 0)
        if not header:
            return
        at += header + size


def codes(section: bytes) -> str:
    """Each once, machine code first, as a target's row has them."""
    return " ".join(sorted({image.code for image in images(section)}, key=lambda code: (code[0] == "c", code)))


def lined(section: bytes) -> bool:
    return any(image.lined for image in images(section))
