# SPDX-License-Identifier: MIT
"""NVIDIA's attribute records: how .nv.info, .nv.info.<kernel> and .nv.compat are written.

A record is a format byte, an attribute byte and 16 bits: the value itself, or the length of what follows.
The attribute numbers are EIATTR_* and EICOMPAT_ATTR_* as cuobjdump names them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kernelwright_toolchain.cubin.elf import CubinError

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_VALUE, BYTE, HALF, SIZED = 1, 2, 3, 4

MAX_THREADS = 0x05  # three dimensions of __launch_bounds__
REQUIRED_THREADS = 0x10  # three dimensions that a launch must have
FRAME_SIZE = 0x11  # (symbol, bytes)
MIN_STACK_SIZE = 0x12  # (symbol, bytes)
REGISTERS = 0x2F  # (symbol, count)

COMPAT_ACCELERATED = 0x09  # 1: only for this very architecture, as the suffix `a` says


def records(body: bytes) -> Iterator[tuple[int, bytes]]:
    """(attribute, value) of each record; short values are two bytes."""
    at = 0
    while at < len(body):
        if at + 4 > len(body):
            raise CubinError(f"an attribute record is cut off: {body[at:]!r}")
        form, attribute, half = struct.unpack_from("<BBH", body, at)
        at += 4
        if form in (NO_VALUE, BYTE, HALF):
            yield attribute, body[at - 2 : at]
        elif form == SIZED:
            if at + half > len(body):
                raise CubinError(f"attribute {attribute:#x} says {half} bytes, but {len(body) - at} are left")
            yield attribute, body[at : at + half]
            at += half
        else:
            raise CubinError(f"attribute {attribute:#x} has the unknown format {form}")


def words(value: bytes, count: int, what: str) -> tuple[int, ...]:
    """`count` 32-bit numbers, and nothing more."""
    if len(value) != 4 * count:
        raise CubinError(f"{what} has {len(value)} bytes, not {4 * count}")
    return struct.unpack(f"<{count}I", value)
