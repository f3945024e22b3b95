# SPDX-License-Identifier: MIT
"""Zip archives that may have been made to harm: too many members, members over each other, names that lead outside."""

from __future__ import annotations

import struct
import zipfile
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kernelwright.doctor.xray._view import Damaged

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_DIRECTORY = 64 << 20  # bytes of the list of members; torch's own wheel needs 2 MB
_END, _LOCATOR, _WIDE = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
_UNREADABLE = 0x61  # flags: encrypted, a patch, encrypted strongly
_LOCAL = 30  # bytes of a member's header in front of its name


def _directory_size(path: Path) -> int:
    """What the archive says of its list of members: it is read into memory, so it has to be looked at first."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - (1 << 16) - 64))
        tail = file.read()
        at = tail.rfind(_END)
        if at < 0 or at + 22 > len(tail):
            raise Damaged("the archive is cut off: its list of members is missing")
        (directory,) = struct.unpack_from("<I", tail, at + 12)
        if at >= 20 and tail[at - 20 : at - 16] == _LOCATOR:
            (place,) = struct.unpack_from("<Q", tail, at - 12)
            file.seek(min(place, size))
            wide = file.read(56)
            if len(wide) == 56 and wide[:4] == _WIDE:
                (directory,) = struct.unpack_from("<Q", wide, 40)
    return int(directory)


@contextmanager
def archive(path: Path) -> Iterator[zipfile.ZipFile]:
    size = _directory_size(path)
    if size > _MOST_DIRECTORY:
        raise Damaged(f"the archive's list of members has {size} bytes; {_MOST_DIRECTORY} is the most that is read")
    try:
        opened = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, OverflowError) as error:
        raise Damaged(f"the archive cannot be read: {error}") from None
    with opened:
        yield opened


def members(opened: zipfile.ZipFile) -> tuple[list[zipfile.ZipInfo], list[str]]:
    """The members that can be read, and what is wrong with the others."""
    problems = []
    good: list[zipfile.ZipInfo] = []
    names: set[str] = set()
    end = 0
    for info in sorted(opened.infolist(), key=lambda one: one.header_offset):
        name = info.filename
        if name.endswith("/"):
            continue
        if not name:
            problems.append("a member has no name; it was left out")
            continue
        if name.startswith("/") or ".." in PurePosixPath(name).parts or "\\" in name:
            problems.append(f"{name!r} leads out of the wheel")
        if name in names:
            problems.append(f"{name!r} is in it twice: which one is installed depends on the installer")
        names.add(name)
        if info.header_offset < end:
            problems.append(f"{name!r} overlaps another member; it was left out")
            continue
        end = info.header_offset + _LOCAL + len(name.encode("utf-8", "surrogatepass")) + info.compress_size
        if info.flag_bits & _UNREADABLE:
            problems.append(f"{name!r} is encrypted, or a patch of something else; it was left out")
            continue
        if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            problems.append(f"{name!r} is packed by method {info.compress_type}, which no wheel uses; it was left out")
            continue
        good.append(info)
    return sorted(good, key=lambda one: one.filename), problems
