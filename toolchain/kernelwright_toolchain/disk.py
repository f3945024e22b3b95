# SPDX-License-Identifier: MIT
"""A full disk, told from every other failure, with the file systems that a build writes to and the room on each; and a
file that this user may not touch."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from pathlib import Path

from kernelwright_toolchain.device.environment import cache_dir
from kernelwright_toolchain.errors import CompileError, DiskFull, KwError, ProvisionError, RequestError, ToolMissing
from kernelwright_toolchain.project import project

_ERRORS = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
# As the C library, zig and Python's tempfile say it, in what pip, CMake, ninja or a compiler printed.
_WORDS = re.compile(r".*(?:No space left on device|Disk quota exceeded|NoSpaceLeft|No usable temporary directory).*")

_SILENT = (CompileError, ProvisionError, ToolMissing)  # CMake says that it wrote a file for which there was no room
LITTLE = 4  # MiB


def full(error: BaseException) -> DiskFull | None:
    """The same failure if it was for want of room; None if it was not."""
    if isinstance(error, OSError) and error.errno in _ERRORS:
        return DiskFull(_told(str(error)))
    said = _WORDS.search(str(error)) if isinstance(error, KwError | OSError) else None
    if said:
        return DiskFull(_told(said[0].strip()[:500]))
    if isinstance(error, _SILENT) and min(room for room, _ in _rooms()) < LITTLE:
        return DiskFull(_told(f"there is hardly any room, and this failed:\n{error}"))
    return None


def forbidden(error: BaseException) -> ProvisionError | None:
    """The same failure if a file's mode, its owner or a read-only file system is to blame; None if not."""
    if not isinstance(error, OSError) or error.errno not in _FORBIDDEN:
        return None
    return ProvisionError(
        f"{error.filename or 'a file'}: {error.strerror}. Nothing half-written is kept as whole. Let this user (id "
        f"{os.geteuid()}) write there, or copy the tree to where it may, and run the same command again"
    )


def _above(path: Path) -> Path:
    """The path, or what of it is there."""
    return path if path.exists() else _above(path.parent)


def _temporary() -> Path:
    named = next((os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), None)
    return Path(named or (tempfile.tempdir or "/tmp"))  # noqa: S108 - gettempdir() may fail where it is full


def _mount(path: Path) -> Path:
    """Where the file system of this path is mounted."""
    here = _above(path.resolve())
    while here != here.parent and here.parent.stat().st_dev == here.stat().st_dev:
        here = here.parent
    return here


def _places() -> dict[str, Path]:
    """What a build writes to; a project that a verb was told of and has left by now is in it no more."""
    temporary = {"temporary files": _temporary()}
    try:
        return {"this tree's .kw/, build/ and dist/": project().root, **temporary, "the cache": cache_dir()}
    except RequestError:
        return temporary


def _rooms() -> list[tuple[int, str]]:
    """(MiB, line) of each file system, least first: after what was half written was removed, so it need not be none."""
    uses: dict[Path, list[str]] = {}
    for use, path in _places().items():
        uses.setdefault(_mount(path), []).append(use)
    rows = []
    for mount, users in uses.items():
        found = os.statvfs(mount)
        room, size = (blocks * found.f_frsize >> 20 for blocks in (found.f_bavail, found.f_blocks))
        rows.append((room, f"  {mount}: {room:,} of {size:,} MiB free, for {', '.join(users)}"))
    return sorted(rows)


def _told(said: str) -> str:
    lines = "\n".join(line for _, line in _rooms())
    return (
        f"the disk is full: {said}\n{lines}\n"
        "Nothing half-written is kept as whole. Make room, or put some of it elsewhere: temporary files where TMPDIR "
        "says, the cache where KERNELWRIGHT_CACHE says, the tree by copying it. Then run the same command again; it "
        "goes on with what was finished."
    )
