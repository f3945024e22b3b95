# SPDX-License-Identifier: MIT
"""`kwt lock`: writes what the project's own backend needs, and CUDA's libraries, by version and hash."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from kernelwright_toolchain import providers
from kernelwright_toolchain.classic import gcc, requirements, toolkit
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.locking import conda, conda_tool
from kernelwright_toolchain.request import find_target
from kernelwright_toolchain.settings import Settings
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.verbs._project import add_project, opened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser)


def _written(path: Path, needed: list[str], *, nvidia: bool = False, machines: Sequence[str] = ()) -> str:
    text = requirements.pinned(needed, nvidia=nvidia, machines=machines)
    path.write_text(text, encoding="utf-8")
    where = f", of {' and '.join(machines)} as well" if machines else ""
    count = len(re.findall(r"(?m)^[\w.-]+==", text))
    return f"{path}: {count} packages for {', '.join(needed)}{where}"


def _others(settings: Settings) -> tuple[str, ...]:
    """The machines of the project's targets that this one is not."""
    rows = load()
    machines = {find_target(rows, name).machine for name in settings.targets}
    return tuple(sorted(machines - {providers.machine_of(rows)}))


def _gcc(path: Path, name: str) -> str:
    path.write_text(gcc.pinned(name), encoding="utf-8")
    return f"{path}: {name} and what it needs, of this machine's apt sources"


def _wanted(settings: Settings) -> tuple[list[str], list[str]]:
    """For the backend, of CUDA."""
    rows = load()
    if settings.toolkit is not None and settings.toolkit not in rows.toolkits:
        raise RequestError(f"toolkit {settings.toolkit!r} is not in the table; there are {', '.join(rows.toolkits)}")
    kit = toolkit.row_of(rows.toolkits[settings.toolkit] if settings.toolkit else None, rows)
    backend = settings.backend
    needed = requirements.wanted(settings.root, backend, settings.torch, settings.requires) if backend else []
    return needed, requirements.libraries_wanted(kit, settings.libraries)


def missing(settings: Settings) -> list[str]:
    """The locks without which a wheel of this project is labelled."""
    if settings.kernels:
        return []
    names = zip((requirements.LOCK, requirements.LIBRARIES), _wanted(settings), strict=True)
    return [name for name, needed in names if needed and not (settings.locks / name).is_file()]


def writers(settings: Settings) -> dict[str, Callable[[], str]]:
    """What makes each of the project's locks; each says what is in it."""
    if settings.kernels:
        return {}
    needed, libraries = _wanted(settings)
    found: dict[str, Callable[[], str]] = {}
    if needed:
        found[requirements.LOCK] = lambda: _written(settings.locks / requirements.LOCK, needed)
    if libraries:
        found[requirements.LIBRARIES] = lambda: _written(
            settings.locks / requirements.LIBRARIES, libraries, nvidia=True, machines=_others(settings)
        )
    if settings.gcc:
        found[gcc.LOCK] = lambda: _gcc(settings.locks / gcc.LOCK, str(settings.gcc))
    return found


def run(given: argparse.Namespace) -> int:
    with opened(given) as settings:
        made = writers(settings)
        for make in made.values():
            print(make())
        table, first = load(), next(iter(conda.LOCKS))
        environments = [settings.root / one.environment for one in conda.platforms(table)]
        if settings.locks == settings.root and all(path.is_file() for path in environments):
            print(f"{settings.root / conda.LOCK}: {conda_tool.refresh(table, first, optional=True)}")
        elif not made:
            print("nothing to lock: the toolchain's own locks have all that this project's build needs")
        return 0
