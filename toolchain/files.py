# SPDX-License-Identifier: MIT
"""Files written whole or not at all, and digests of big files that are read once."""

from __future__ import annotations

import hashlib
import json
import os
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


def write_atomically(path: Path, data: bytes) -> None:
    """Gives `path` these bytes in one step; the directory is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=PART)
    try:
        with os.fdopen(handle, "wb") as part:
            part.write(data)
        Path(name).chmod(0o666 & ~_umask())
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
    """What `find` says about some files, asked again only when one of them changes size or time."""
    note = memo / "tools" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    with suppress(OSError, ValueError, LookupError, TypeError):
        known = json.loads(note.read_text(encoding="utf-8"))
        if known["files"] and all(_state(path) == [path, size, time] for path, size, time in known["files"]):
            return {str(name): str(value) for name, value in known["facts"].items()}
    files, facts = find()
    with suppress(OSError):  # a read-only cache only costs time
        states = [_state(str(path)) for path in files]
        write_atomically(note, json.dumps({"files": states, "facts": facts}).encode())
    return facts
