# SPDX-License-Identifier: MIT
"""A zip file whose every byte is decided here: order, times, modes, and a locked compressor instead of zlib.

An interpreter's zlib may be zlib or zlib-ng, whose output differs at one level; zipfile would use it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernelwright_toolchain.errors import GateError, ToolMissing
from kernelwright_toolchain.wheel.libdeflate import Libdeflate

LEVEL = 12  # libdeflate's best
_STORED, _DEFLATED = 0, 8
_DATE = (1 << 5) | 1  # 1 January 1980: the first day a zip file can name
_UTF8 = 1 << 11
_UNIX, _VERSION = 3, 20
_LIMIT = 0xFFFFFFFF

Compressor = Callable[[bytes], bytes]


def _libdeflate() -> Any:
    try:
        import deflate
    except ModuleNotFoundError:
        raise ToolMissing(
            "wheels are packed by libdeflate, whose module `deflate` is not importable here; "
            "`./kw build` brings it, and so does pip unless it is told --no-build-isolation"
        ) from None
    return deflate


def compressor(library: Path | None = None) -> Compressor:
    """libdeflate: this library of a locked environment, or else the module from the locked tools."""
    if library:
        found = Libdeflate(library)
        return lambda data: found.compress(data, LEVEL)
    deflate = _libdeflate()
    return lambda data: bytes(deflate.deflate_compress(data, LEVEL))


def gzipped(data: bytes) -> bytes:
    """A gzip file without name and time."""
    return bytes(_libdeflate().gzip_compress(data, LEVEL))


def mode_of(name: str) -> int:
    """0755 for what the loader or a person executes, 0644 for the rest; the builder's umask has no say."""
    return 0o755 if name.endswith(".so") else 0o644


def pack(members: Mapping[str, bytes], compress: Compressor) -> bytes:
    """The archive of these members, sorted by name."""
    body, directory = bytearray(), bytearray()
    for name in sorted(members):
        data = members[name]
        raw, packed, method = name.encode(), compress(data), _DEFLATED
        if len(packed) >= len(data):
            packed, method = data, _STORED
        if len(body) + len(packed) > _LIMIT or len(data) > _LIMIT:
            raise GateError(f"{name}: the wheel would be over 4 GiB")
        flags = 0 if name.isascii() else _UTF8
        common = struct.pack(
            "<HHHHHIIIHH", _VERSION, flags, method, 0, _DATE, zlib.crc32(data), len(packed), len(data), len(raw), 0
        )
        directory += b"PK\1\2" + struct.pack("<BB", _VERSION, _UNIX) + common
        directory += struct.pack("<HHHII", 0, 0, 0, (0o100000 | mode_of(name)) << 16, len(body)) + raw
        body += b"PK\3\4" + common + raw + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    return bytes(body + directory + b"PK\5\6" + end)
