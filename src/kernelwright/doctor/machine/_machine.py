# SPDX-License-Identifier: MIT
"""A machine as the checks see it: files under a root, environment variables, programs that can be asked."""

from __future__ import annotations

import grp
import os
import re
import stat
import subprocess
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kernelwright.doctor.machine import _probes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

_MOST = 8_000_000  # bytes of one file: what is read here is never longer, what pretends to be may be endless
_WILD = re.compile(r"[*?\[]")
_PATIENCE = 1.0  # seconds for a program that only prints its version

QUICK = {"driver": 5.0, "operators": 5.0, "torch": 0.5}
"""Seconds for each probe. torch takes some to import: an import that fails is over long before."""
THOROUGH = QUICK | {"operators": 60.0, "torch": 60.0}
"""The same where somebody wants to wait for torch, and for a driver that compiles."""


def _ask(command: Sequence[str]) -> str | None:
    """What a program prints; None if it cannot be run or takes too long."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr


@dataclass
class Machine:
    """`root` is where its files are; `ask` runs a program; `probe` runs a probe by its name in a child process."""

    variables: Mapping[str, str]
    root: Path = Path("/")
    processor: str = field(default_factory=lambda: os.uname().machine)
    kernel: str = field(default_factory=lambda: os.uname().release)
    ask: Callable[[Sequence[str]], str | None] = _ask
    probe: Callable[[str], dict[str, Any]] = field(default_factory=lambda: _probes.Probes(QUICK))
    _answers: dict[tuple[str, ...], str | None] = field(default_factory=dict)
    _seen: dict[Any, Any] = field(default_factory=dict)

    def once(self, look: Callable[[Machine], T]) -> T:
        """What a look at this machine finds that several checks share; it is taken once."""
        if look not in self._seen:
            self._seen[look] = look(self)
        return cast("T", self._seen[look])

    def says(self, *command: str) -> str | None:
        """What a program of that machine prints; it is run once. None if it cannot be run or takes too long."""
        if command not in self._answers:
            self._answers[command] = self.ask(command)
        return self._answers[command]

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def is_file(self, name: str) -> bool:
        """False for what cannot be looked at too, such as a file in somebody else's directory."""
        try:
            return self.path(name).is_file()
        except (OSError, ValueError):
            return False

    def may(self, name: str, mode: int) -> bool:
        """Whether this user may do with a file what `mode` says, as in os.access."""
        try:
            return os.access(self.path(name), mode)
        except (OSError, ValueError):
            return False

    def room(self, name: str) -> int | None:
        """Bytes that this user can still write where a directory lies; None where that is not known, or none may be."""
        try:
            facts = os.statvfs(self.path(name)) if self.may(name, os.W_OK) else None
        except (OSError, ValueError):
            return None
        return facts.f_bavail * facts.f_frsize if facts else None

    def group_that_may(self, name: str) -> str | None:
        """The group that may read and write a file, unless it is root's own; by its number where it has no name."""
        try:
            status = self.path(name).stat()
        except (OSError, ValueError):
            return None
        if not status.st_gid or not status.st_mode & stat.S_IRGRP or not status.st_mode & stat.S_IWGRP:
            return None
        try:
            return grp.getgrgid(status.st_gid).gr_name
        except KeyError:
            return None

    def raw(self, name: str) -> bytes | None:
        """A file's content, its beginning if it is long; None where there is none or it may not be read."""
        try:
            if not self.is_file(name):  # a pipe has no end, and opening one waits for somebody who writes
                return None
            with self.path(name).open("rb") as file:
                return file.read(_MOST)
        except (OSError, ValueError):
            return None

    def text(self, name: str) -> str | None:
        """A text file's content; None where there is none or it may not be read."""
        content = self.raw(name)
        return None if content is None else content.decode("utf-8", errors="replace")

    def changed(self, name: str) -> float | None:
        """When a file was last written, in seconds; None where that cannot be told."""
        try:
            return self.path(name).stat().st_mtime
        except (OSError, ValueError):
            return None

    def exists(self, name: str) -> bool:
        try:
            return self.path(name).exists()
        except (OSError, ValueError):
            return False

    def find(self, pattern: str) -> list[str]:
        """Files that a pattern matches, as paths on that machine, sorted."""
        directory, _, name = pattern.rpartition("/")
        if _WILD.search(name):
            return self._glob(pattern)
        # Many names are looked for in the same directories, whose own pattern is matched once.
        places = self._directories(directory) if _WILD.search(directory) else [directory]
        return [f"{place}/{name}" for place in places if self.exists(f"{place}/{name}")]

    def _directories(self, pattern: str) -> list[str]:
        if pattern not in self._seen:
            self._seen[pattern] = self._glob(pattern)
        return cast("list[str]", self._seen[pattern])

    def _glob(self, pattern: str) -> list[str]:
        try:
            found = sorted(self.root.glob(pattern.lstrip("/")))
        except (OSError, ValueError, RuntimeError, NotImplementedError, IndexError):  # links in a circle, odd patterns
            return []
        return ["/" + str(path.relative_to(self.root)) for path in found]

    def resolved(self, name: str) -> str:
        """Where a file is in the end, on that machine, links followed."""
        try:
            real = self.path(name).resolve()
            return "/" + str(real.relative_to(self.root.resolve()))
        except (OSError, ValueError, RuntimeError):
            return name

    def programs(self, name: str) -> list[str]:
        """Every program of this name that PATH finds, the one that would run first; links to one program count once."""
        found: dict[str, str] = {}
        for directory in self.variables.get("PATH", "").split(":"):
            place = f"{directory}/{name}"
            if directory.startswith("/") and self.is_file(place) and self.may(place, os.X_OK):
                found.setdefault(self.resolved(place), place)
        return list(found.values())

    @cached_property
    def driver(self) -> dict[str, Any]:
        """What the child process that loaded libcuda says: see `_probes.DRIVER`."""
        return self.probe("driver")

    @cached_property
    def operators(self) -> dict[str, Any]:
        """What the child process that ran the operators on GPUs says: see `operators._child`."""
        return self.probe("operators")

    @cached_property
    def torch(self) -> dict[str, Any]:
        """What the child process that imported torch says: see `_probes.TORCH`."""
        return self.probe("torch")
