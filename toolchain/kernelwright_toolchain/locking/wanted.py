# SPDX-License-Identifier: MIT
"""Which lock files there are, read from targets.toml and pyproject.toml: neither is restated here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright_toolchain.errors import TableError, ToolMissing
from kernelwright_toolchain.project import MARK, project
from kernelwright_toolchain.providers import archives
from kernelwright_toolchain.targets import Table

UNLOCKED_GROUPS = ("torch",)  # which build of it there is depends on the index; hashed when it is installed


@dataclass(frozen=True)
class Wanted:
    """One lock file: these requirements and all they need, for each of these Pythons and machines."""

    path: str
    requirements: tuple[str, ...]
    pythons: tuple[str, ...]
    machines: tuple[str, ...]
    glibc: Mapping[str, tuple[int, int]]  # the oldest C library of each machine
    closure: bool = True  # whether what they depend on is wanted too


def pyproject() -> dict[str, Any]:
    """pyproject.toml."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        try:
            import tomli as tomllib
        except ModuleNotFoundError:
            raise ToolMissing("this Python has no TOML reader: run through ./kw, or `pip install tomli`") from None
    found: dict[str, Any] = tomllib.loads((project().root / MARK).read_text(encoding="utf-8"))
    return found


def group(name: str) -> tuple[str, ...]:
    """The requirements of one [dependency-groups] entry."""
    groups = pyproject()["dependency-groups"]
    if name not in groups:
        raise TableError(f"pyproject.toml [dependency-groups]: no group {name!r}; there are {', '.join(groups)}")
    found: list[str] = []
    for entry in groups[name]:
        found += group(entry["include-group"]) if isinstance(entry, dict) else [entry]
    return tuple(found)


def lock_of(name: str) -> Path:
    """The lock file of a dependency group."""
    return project().data(f"locks/{name}.txt")


def pythons() -> tuple[str, ...]:
    """The Python releases that pyproject.toml says it supports, oldest first."""
    found = re.findall(r"Python :: (3\.\d+)$", "\n".join(pyproject()["project"]["classifiers"]), re.MULTILINE)
    if not found:
        raise TableError("pyproject.toml: no classifier `Programming Language :: Python :: 3.N` says what is supported")
    return tuple(sorted(found, key=lambda text: int(text.split(".")[1])))


def wanted(table: Table) -> tuple[Wanted, ...]:
    """Every lock file of this tree."""
    glibc: dict[str, tuple[int, int]] = {}
    for target in table.targets.values():
        floor = (target.glibc.parts[0], target.glibc.parts[1])
        glibc[target.machine] = min(floor, glibc.get(target.machine, floor))
    known = pythons()
    locks = []
    for toolkit in table.toolkits.values():
        pins = tuple(f"{toolkit.pypi[part]}=={toolkit.components[part]}" for part in ("nvrtc", "cudart", "cccl"))
        for machine, path in toolkit.locks.items():
            if archives.is_lock(Path(path)):  # locking/redist.py makes it
                continue
            locks.append(Wanted(path, pins, known[-1:], (machine,), glibc, closure=False))
        whole = toolkit.nvcc
        for machine, path in whole.locks.items() if whole else ():
            locks.append(
                Wanted(path, whole.requirements if whole else (), known[-1:], (machine,), glibc, closure=False)
            )
    for machine, path in table.tools.locks.items():
        locks.append(Wanted(path, table.tools.requirements, known, (machine,), glibc))
    for name in pyproject()["dependency-groups"]:
        if name not in UNLOCKED_GROUPS:
            path = f"locks/{name}.txt"
            locks.append(Wanted(path, group(name), known, tuple(sorted(glibc)), glibc))
    return tuple(locks)
