# SPDX-License-Identifier: MIT
"""Compiled images, kept under a hash of everything that decides them. Machines may share one directory.

An entry is one file: a line with the sha256 of its key and the rest, a line of JSON, the image. Whoever can write an
entry decides what is packed: so nothing is taken from, or put into, a directory that others own or may write.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from kernelwright_toolchain.device.compiler import Compiled
from kernelwright_toolchain.files import about_trust, write_privately

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kernelwright_toolchain.device.compiler import DeviceCompiler, Job
    from kernelwright_toolchain.device.sources import File

SCHEMA = 1  # raise it when an entry or the meaning of a key changes


def key_of(job: Job, compiler: DeviceCompiler, sources: Iterable[File]) -> str:
    """sha256 over sources, options, code and compiler; no path of this machine is in it."""
    parts = {
        "schema": SCHEMA,
        "op": job.op,
        "code": job.code.name,
        "compiler": [compiler.name, compiler.version, compiler.digest],
        "options": compiler.options(job),
        "sources": [[file.path.as_posix(), hashlib.sha256(file.data).hexdigest()] for file in sources],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _seal(key: str, rest: bytes) -> bytes:
    return hashlib.sha256(key.encode() + rest).hexdigest().encode()


def _parsed(rest: bytes) -> Compiled | None:
    """An entry after its seal; None if it is not of the form that `store` gives it."""
    facts, end, image = rest.partition(b"\n")
    try:
        known = json.loads(facts)
        log, seconds, peak = known["log"], known["seconds"], known["peak"]
    except (ValueError, LookupError, TypeError):
        return None
    right = isinstance(log, str) and isinstance(seconds, (int, float)) and isinstance(peak, int)
    return Compiled(image, log, seconds, peak) if end and right else None


class Cache:
    """`notes` gathers what a person should hear: damaged entries, a directory that cannot be written or believed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[str] = []
        self._is_trusted = all(map(self._believe, (root, root / "images", root / "peaks")))

    def _believe(self, path: Path) -> bool:
        """Whether only this user and root can have written what lies here; if not, that is said."""
        others = about_trust(path)
        if others:
            self.notes.append(
                f"cache: {path} {others}, and whoever can write there decides what machine code is packed; this build "
                f"goes without it. If all in it is yours: chmod -R go-w {self.root}; or name another directory by "
                "KERNELWRIGHT_CACHE"
            )
        return not others

    def _entry(self, key: str) -> Path:
        return self.root / "images" / key[:2] / key

    def load(self, key: str, job: Job) -> Compiled | None:
        """What was stored, or None; a damaged entry is said, and counts as none."""
        entry = self._entry(key)
        if not (self._is_trusted and self._believe(entry.parent) and self._believe(entry)):
            return None
        try:
            data = entry.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self.notes.append(f"cache: the entry of {job} cannot be read ({error}); compiling it again")
            return None
        digest, _, rest = data.partition(b"\n")
        if _seal(key, rest) != digest:
            self.notes.append(f"cache: the entry of {job} is damaged ({entry}); compiling it again")
            return None
        compiled = _parsed(rest)
        if compiled is None:
            self.notes.append(
                f"cache: the entry of {job} is malformed ({entry}): its sha256 is right, and it is not what this "
                "toolchain writes; compiling it again"
            )
        return compiled

    def store(self, key: str, job: Job, compiled: Compiled) -> None:
        facts = {"job": str(job), "log": compiled.log, "seconds": compiled.seconds, "peak": compiled.peak}
        rest = json.dumps(facts).encode() + b"\n" + compiled.image
        self._write(self._entry(key), _seal(key, rest) + b"\n" + rest)

    def _peak(self, job: Job, compiler: DeviceCompiler) -> Path:
        name = json.dumps([job.op, job.code.name, compiler.name, compiler.version])
        return self.root / "peaks" / hashlib.sha256(name.encode()).hexdigest()

    def peak(self, job: Job, compiler: DeviceCompiler) -> int | None:
        """Bytes the last compile of this op for this code took, whatever its source was then."""
        path = self._peak(job, compiler)
        with suppress(OSError, ValueError):
            if self._is_trusted and self._believe(path):
                return max(0, int(path.read_text(encoding="ascii")))
        return None

    def learn(self, job: Job, compiler: DeviceCompiler, compiled: Compiled) -> None:
        self._write(self._peak(job, compiler), str(compiled.peak).encode())

    def _write(self, path: Path, data: bytes) -> None:
        if not self._is_trusted or about_trust(path.parent):  # said when it was to be read
            return
        try:
            write_privately(path, data)
        except OSError as error:
            note = f"cache: {self.root} cannot be written ({error.strerror}); this build keeps nothing for the next"
            if note not in self.notes:
                self.notes.append(note)
