# SPDX-License-Identifier: MIT
"""[tool.kernelwright] of a project: which targets, toolkit and GPUs it is built for, and how; read strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelwright_toolchain.errors import TableError
from kernelwright_toolchain.targets.read import toml

SECTION = "tool.kernelwright"
TORCH = ("none", "headers", "stable-abi")
_KEYS = {
    "backend", "targets", "toolkit", "archs", "defines", "libraries", "torch", "kernel", "command", "sources",
    "requires", "network", "gcc",
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """`kernels` is empty for a project that compiles its own way (`backend` or `command`)."""

    root: Path
    name: str
    version: str
    about: str = ""
    targets: tuple[str, ...] = ()
    toolkit: str | None = None
    archs: Mapping[str, str] = field(default_factory=dict)  # by target; "" for all that are not named
    backend: str | None = None
    defines: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    torch: str = "none"
    kernels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()  # what a build reads beside what git knows
    requires: tuple[str, ...] = ()  # what the backend needs and [build-system] does not say
    network: bool = False  # whether the build may fetch
    gcc: str | None = None  # Debian's package of it, g++ with its major release, where it is locked too
    config: Path | None = None  # the file with the table, where that is not pyproject.toml

    @property
    def locks(self) -> Path:
        """The folder with the project's own locks: beside its table, so that sources stay as they are."""
        return self.config.parent if self.config else self.root

    @property
    def package(self) -> str:
        """What is imported."""
        return re.sub(r"[-.]+", "_", self.name).lower()

    def archs_of(self, target: str) -> str | None:
        return self.archs.get(target, self.archs.get("")) or None


def _wrong(where: Path, key: str, found: object, wanted: str) -> TableError:
    return TableError(f"{where}: [{SECTION}] {key} = {found!r} is not {wanted}")


def _words(where: Path, given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = given.get(key, [])
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise _wrong(where, key, found, "a list of strings")
    return tuple(found)


def _flag(where: Path, given: Mapping[str, Any], key: str) -> bool:
    found = given.get(key, False)
    if not isinstance(found, bool):
        raise _wrong(where, key, found, "true or false")
    return found


def _gcc(where: Path, found: object) -> str | None:
    if found is None or (isinstance(found, str) and re.fullmatch(r"g\+\+-\d+", found)):
        return found
    raise _wrong(where, "gcc", found, 'a package of Debian, "g++-" and its major release')


def _archs(where: Path, found: object) -> Mapping[str, str]:
    if found is None:
        return {}
    if isinstance(found, str):
        return {"": found}
    if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        return found
    raise _wrong(where, "archs", found, 'a string such as "80;90+ptx", or a table of them by target')


def read(root: Path, config: Path | None = None) -> Settings:
    """The table of pyproject.toml, or of another file where the sources stay as they are; TableError if it is wrong."""
    path = config or root / "pyproject.toml"
    if not path.is_file():
        raise TableError(f"there is no {path}; `kwt init` writes the table of a project, `kwt new NAME` a project")
    whole = toml(path.read_text(encoding="utf-8"), str(path))
    own = root / "pyproject.toml"
    project = whole.get("project") or (
        toml(own.read_text(encoding="utf-8"), str(own)).get("project", {}) if own.is_file() else {}
    )
    given = whole.get("tool", {}).get("kernelwright")
    if given is None:
        raise TableError(f"{path} has no [{SECTION}]; `kwt init` writes it")
    if odd := given.keys() - _KEYS:
        raise TableError(f"{path}: [{SECTION}] has {min(odd)!r}; it may have {', '.join(sorted(_KEYS))}")
    torch = given.get("torch", "none")
    if torch not in TORCH:
        raise _wrong(path, "torch", torch, f"one of {', '.join(TORCH)}")
    return Settings(
        root=root,
        name=str(project.get("name", root.name)),
        version=str(project.get("version", "0")),
        about=str(project.get("description", "")),
        targets=_words(path, given, "targets"),
        toolkit=given.get("toolkit"),
        archs=_archs(path, given.get("archs")),
        backend=given.get("backend"),
        defines=given.get("defines", {}),
        libraries=_words(path, given, "libraries"),
        torch=torch,
        kernels=given.get("kernel", {}),
        sources=_words(path, given, "sources"),
        requires=_words(path, given, "requires"),
        network=_flag(path, given, "network"),
        gcc=_gcc(path, given.get("gcc")),
        config=config,
    )
