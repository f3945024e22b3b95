# SPDX-License-Identifier: MIT
"""How much memory compilers may take: what the kernel calls available, under every cgroup limit above this process."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc")


@dataclass(frozen=True)
class Budget:
    """Bytes, and who set them."""

    size: int
    source: str


@dataclass(frozen=True)
class _Names:
    """How a cgroup version calls its files."""

    limit: str
    usage: str
    reclaimable: str  # of memory.stat: file pages that the kernel drops when it needs room


_V1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Names("memory.max", "memory.current", "inactive_file")


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def _groups(proc: Path) -> Iterator[tuple[Path, Path, _Names]]:
    """(mount point, directory of this process below it, names) of each memory hierarchy."""
    paths: dict[str, str] = {}  # "" for v2, "memory" for v1
    for line in (proc / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "memory" in controllers.split(","):
            paths["memory" if controllers else ""] = path
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields, _, tail = line.partition(" - ")
        root, point = (_unescape(field) for field in fields.split()[3:5])
        kind, options = tail.split()[0], tail.split()[-1].split(",")
        if kind == "cgroup2" and "" in paths:
            path, names = paths[""], _V2
        elif kind == "cgroup" and "memory" in options and "memory" in paths:
            path, names = paths["memory"], _V1
        else:
            continue
        below = PurePosixPath(path)  # a container may see the hierarchy from `root` down only, or even less
        seen = below.is_relative_to(root) and ".." not in below.parts
        yield Path(point), Path(point) / (below.relative_to(root) if seen else ""), names


def _room(group: Path, names: _Names) -> int | None:
    """Bytes left under the limit of one group; None without a limit."""
    with suppress(OSError, ValueError):
        limit = int((group / names.limit).read_text())  # no limit: "max", or in version 1 more than any machine has
        usage = int((group / names.usage).read_text())
        for line in (group / "memory.stat").read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == names.reclaimable:
                usage -= int(value)
        return max(0, limit - max(0, usage))
    return None


def available(proc: Path = PROC) -> Budget:
    """The smallest of MemAvailable and what each cgroup from this process up to the root leaves."""
    best = Budget(1 << 62, "no limit known")
    with suppress(OSError):
        match = re.search(r"^MemAvailable:\s+(\d+) kB", (proc / "meminfo").read_text(), re.MULTILINE)
        if match:
            best = Budget(int(match.group(1)) * 1024, "MemAvailable")
    with suppress(OSError, ValueError):
        for point, directory, names in _groups(proc):
            for group in (directory, *directory.parents):
                room = _room(group, names)
                if room is not None and room < best.size:
                    best = Budget(room, f"cgroup limit of {group}")
                if group == point:
                    break
    return best
