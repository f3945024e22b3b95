# SPDX-License-Identifier: MIT
"""Files written whole or not at all, and digests of big files that are read once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator


CALLED_FROM = "KW_CALLED_FROM"  # kw tells
PART = ".part-"  # how the names of files begin that are being written, or were when their writer was killed


def given(path: str) -> Path:
    """A path as a person wrote it: seen from where ./kw was called, since nox works in the tree."""
    return Path(os.environ.get(CALLED_FROM, "")) / path


def about_trust(path: Path) -> str:
    """Who else may have written what lies here, in words; "" if only this user and root can have.

    Of a path that is not there nothing is said. An access list shows among the group's rights.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"cannot be examined ({error.strerror})"
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to user {found.st_uid}"
    others = [who for who, bit in (("its group", stat.S_IWGRP), ("everybody", stat.S_IWOTH)) if found.st_mode & bit]
    return f"may be written by {' and '.join(others)}" if others else ""


def make_private(path: Path) -> None:
    """The directory and those above it that are missing, for nobody else to write, whatever the user's mask is."""
    for missing in reversed([place for place in (path, *path.parents) if not place.exists()]):
        with suppress(FileExistsError):
            missing.mkdir(mode=0o755)


def link_or_copy(one: str, other: str) -> str:
    """Gives a file another name, or copies it where the file system has no links."""
    try:
        os.link(one, other)
    except OSError:
        shutil.copy2(one, other)
    return other


def write_privately(path: Path, data: bytes) -> None:
    """As write_atomically, for nobody else to change."""
    make_private(path.parent)
    write_atomically(path, data, mask=0o022)


def write_atomically(path: Path, data: bytes, *, mask: int = 0) -> None:
    """Gives `path` these bytes in one step; the directory is made if need be. `mask`: rights that nobody gets."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=PART)
    try:
        with os.fdopen(handle, "wb") as part:
            part.write(data)
        Path(name).chmod(0o666 & ~_umask() & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_if_changed(path: Path, data: bytes) -> bool:
    """As above, but a file that has these bytes keeps its time; True if it was written."""
    if path.is_file() and path.read_bytes() == data:
        return False
    write_atomically(path, data)
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _chunks(path: Path) -> Iterator[bytes]:
    """The file piece by piece: compilers, which run beside this process, need the memory."""
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def search_file(path: Path, pattern: re.Pattern[bytes], longest: int = 256) -> re.Match[bytes] | None:
    """The first match, of at most `longest` bytes, in a file too big to hold."""
    tail = b""
    for chunk in _chunks(path):
        if match := pattern.search(tail + chunk):
            return match
        tail = chunk[-longest:]
    return None


def digest_of(files: Iterable[Path]) -> str:
    """sha256 over names and contents, the same wherever the files lie."""
    parts = []
    for path in files:
        content = hashlib.sha256()
        for chunk in _chunks(path):
            content.update(chunk)
        parts.append((path.name, content.hexdigest()))
    return hashlib.sha256(json.dumps(sorted(parts)).encode()).hexdigest()


def _state(path: str) -> list[Any]:
    found = Path(path).stat()
    return [path, found.st_size, found.st_mtime_ns]


def remembered(memo: Path, key: str, find: Callable[[], tuple[list[Path], dict[str, str]]]) -> dict[str, str]:
    """What `find` says about some files, asked again only when one of them changes size or time.

    A note that others may have written is as none.
    """
    note = memo / "tools" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    trusted = not any(map(about_trust, (memo, note.parent, note)))
    with suppress(OSError, ValueError, LookupError, TypeError):
        known = json.loads(note.read_text(encoding="utf-8"))
        if (
            trusted
            and known["files"]
            and all(_state(path) == [path, size, time] for path, size, time in known["files"])
        ):
            return {str(name): str(value) for name, value in known["facts"].items()}
    files, facts = find()
    with suppress(OSError):  # a read-only cache only costs time
        states = [_state(str(path)) for path in files]
        write_privately(note, json.dumps({"files": states, "facts": facts}).encode())
    return facts
