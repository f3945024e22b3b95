# SPDX-License-Identifier: MIT
"""The files that are looked into: one by itself, those of a directory, the members of a wheel.

Nothing is written under a name that an archive gives. Links to directories are not followed, so no circle ends the
walk; pipes and devices are not opened. What is large is unpacked into a nameless file, what grows too much is left.
"""

from __future__ import annotations

import mmap
import os
import stat
import tempfile
import warnings
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from kernelwright.doctor.xray import _kinds, _zip
from kernelwright.doctor.xray._view import Damaged, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEAD = 1 << 16
_MOST_FILES = 100_000
_IN_MEMORY = 64 << 20
_MOST_UNPACKED = 16 << 30  # bytes of one wheel
_MOST_GROWTH = 100  # a library shrinks to a half or a fifth; a bomb to a thousandth
_CHUNK = 1 << 20

# What opening and unpacking a damaged member ends with.
UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


@dataclass
class Item:
    """One file: its name in the wheel or directory, its size, its beginning."""

    name: str
    size: int
    stored: int
    open: Callable[[], IO[bytes]]
    on_disk: Path | None = None

    def head(self) -> bytes:
        with self.open() as file:
            return file.read(HEAD)

    @contextmanager
    def view(self) -> Iterator[View]:
        """All its bytes: mapped where they lie on disk, unpacked otherwise."""
        if self.on_disk is not None:
            with self.on_disk.open("rb") as given, mmap.mmap(given.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                yield View(mapped)
        elif self.size > _MOST_GROWTH * max(self.stored, 1024):
            raise Damaged(f"{self.stored} bytes claim to unpack to {self.size}: left alone")
        elif self.size <= _IN_MEMORY:
            with self.open() as member:
                yield View(member.read(self.size))
        else:
            with tempfile.TemporaryFile() as spool:
                self._spool(spool)
                with mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                    yield View(mapped)

    def _spool(self, into: IO[bytes]) -> None:
        with self.open() as file:
            while chunk := file.read(_CHUNK):
                into.write(chunk)
        into.flush()


@dataclass
class Opened:
    """What was given, and what is odd about it as a whole."""

    kind: str
    """"wheel", "directory" or "file"."""
    path: Path
    size: int
    items: list[Item]
    problems: list[str]

    def text(self, ending: str) -> str | None:
        """A small text file of a wheel, such as WHEEL."""
        found = next((one for one in self.items if PurePosixPath(one.name).match(ending)), None)
        try:
            return found.head().decode("utf-8", errors="replace") if found else None
        except UNREADABLE:  # told when it is its turn among the members
            return None


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """OSError where it cannot be read, Damaged where it is an archive that cannot be."""
    if path.is_dir():
        yield _directory(path)
        return
    if not stat.S_ISREG(path.stat().st_mode):
        raise Damaged(f"{path} is neither a file nor a directory")
    with path.open("rb") as file:
        head = file.read(HEAD)
        if head.startswith(b"PK\x03\x04"):
            with _zip.archive(path) as archive:
                yield _wheel(path, archive)
            return
    if path.suffix == ".whl":
        raise Damaged(f"it is called a wheel and is no archive: it is {_kinds.kind_of(head, path.stat().st_size)}")
    yield Opened("file", path, path.stat().st_size, [_on_disk(path, path.name)], [])


def _on_disk(path: Path, name: str) -> Item:
    size = path.stat().st_size
    return Item(name, size, size, lambda: path.open("rb"), path)


def _directory(path: Path) -> Opened:
    items, problems = [], []
    seen: set[tuple[int, int]] = set()
    for directory, below, names in os.walk(path, followlinks=False):
        below.sort()
        for name in sorted(names):
            file = Path(directory) / name
            try:
                facts = file.stat()
                if not stat.S_ISREG(facts.st_mode) or (facts.st_dev, facts.st_ino) in seen or not facts.st_size:
                    continue
                seen.add((facts.st_dev, facts.st_ino))
                items.append(_on_disk(file, file.relative_to(path).as_posix()))
            except OSError as error:
                problems.append(f"{name}: {error.strerror}")
        if len(items) > _MOST_FILES:
            problems.append(f"more than {_MOST_FILES} files: the rest was not looked at")
            break
    return Opened("directory", path, sum(one.size for one in items), items, problems)


def _wheel(path: Path, archive: zipfile.ZipFile) -> Opened:
    infos, problems = _zip.members(archive)
    items, total = [], 0
    for info in infos:
        total += info.file_size
        if total > _MOST_UNPACKED:
            problems.append(f"it unpacks to more than {_MOST_UNPACKED >> 30} GiB: the rest was not looked at")
            break
        items.append(Item(info.filename, info.file_size, info.compress_size, _opener(archive, info)))
    return Opened("wheel", path, path.stat().st_size, items, problems)


def _opener(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        with warnings.catch_warnings():  # Python 3.13's, of the first of two members at one place: told by _zip.members
            warnings.filterwarnings("ignore", "Overlapped entries", UserWarning)
            return archive.open(info)

    return opened
