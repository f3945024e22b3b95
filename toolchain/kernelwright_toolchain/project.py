# SPDX-License-Identifier: MIT
"""The project that is built: the tree it lies in, and what it takes from the toolchain where it has none of its own.

A checkout of kernelwright holds this toolchain and is its first project: there the toolchain serves the tree around
it, wherever somebody stands. Installed, it serves the project that the working directory is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.errors import RequestError

TABLE = "targets.toml"
MARK = "pyproject.toml"
_HERE = Path(__file__).resolve()
_TREE = _HERE.parents[2]
_PACKED = _HERE.parent / "data"  # where a wheel of the toolchain has the table, the locks and kw


def own_tree() -> Path | None:
    """The checkout that this toolchain lies in; None where it is installed."""
    return _TREE if not _PACKED.is_dir() and (_TREE / TABLE).is_file() else None


def carried() -> Path:
    """The folder to import kernelwright's doctor from: the checkout's, else what the wheel of the toolchain packs."""
    tree = own_tree()
    return tree / "src" if tree else _PACKED / "doctor"


@dataclass(frozen=True)
class Project:
    """A tree with a pyproject.toml."""

    root: Path

    @classmethod
    def around(cls, place: Path) -> Project:
        """The nearest one above this directory; RequestError if there is none."""
        for folder in [place, *place.parents]:
            if (folder / MARK).is_file():
                return cls(folder)
        raise RequestError(f"no {MARK} in {place} or above it: run this inside a project")

    @property
    def state(self) -> Path:
        """What is fetched, cached and half made."""
        return self.root / ".kw"

    @property
    def dist(self) -> Path:
        """Finished wheels."""
        return self.root / "dist"

    def shown(self, path: Path) -> Path:
        """As a message names it."""
        return path.relative_to(self.root) if path.is_relative_to(self.root) else path

    def data(self, name: str | Path) -> Path:
        """A file of the table or the locks: the project's own, else the toolchain's."""
        own = self.root / name
        return own if own.is_file() else (own_tree() or _PACKED) / name


_chosen: list[Project] = []


def project() -> Project:
    """The one that this process works for."""
    if _chosen:
        return _chosen[-1]
    tree = own_tree()
    return Project(tree) if tree else Project.around(Path.cwd())


@contextmanager
def serving(other: Project) -> Iterator[Project]:
    """For as long as the block runs, this process works for another one."""
    _chosen.append(other)
    try:
        yield other
    finally:
        _chosen.pop()
