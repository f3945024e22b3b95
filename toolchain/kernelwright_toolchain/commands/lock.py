# SPDX-License-Identifier: MIT
"""`./kw lock`: makes the lock files anew from targets.toml and pyproject.toml, or says which are stale."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from kernelwright_toolchain.errors import RequestError, TableError
from kernelwright_toolchain.files import write_if_changed
from kernelwright_toolchain.locking import conda, conda_tool, names, redist
from kernelwright_toolchain.locking.resolve import resolve
from kernelwright_toolchain.locking.wanted import Wanted, wanted
from kernelwright_toolchain.locking.write import problems, text
from kernelwright_toolchain.project import project
from kernelwright_toolchain.targets import Table, load
from kernelwright_toolchain.testing import locked_torch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a lock is stale")
    parser.add_argument("paths", nargs="*", help=f"only these, as in locks/nox.txt or {conda.LOCK}")


def _pip(lock: Wanted) -> str:
    return _write(lock.path, text(lock, resolve(lock)))


def _write(path: str, content: str) -> str:
    return "written" if write_if_changed(project().root / path, content.encode()) else "unchanged"


def _makers(table: Table, *, all_of_them: bool) -> dict[str, Callable[[], str]]:
    """What makes each file. The names of files come after the locks, the conda locks after what they are of."""
    makers: dict[str, Callable[[], str]] = {}
    for lock in wanted(table):
        makers[lock.path] = lambda lock=lock: _pip(lock)  # type: ignore[misc]
    for path, (kit, platform) in redist.locks(table).items():
        makers[path] = lambda path=path, kit=kit, platform=platform: _write(path, redist.text(kit, platform))  # type: ignore[misc]
    makers[names.NAMES] = lambda: _write(names.NAMES, names.text(table))
    makers[locked_torch.TABLE] = lambda: _write(locked_torch.TABLE, locked_torch.text(table))
    for path, content in conda.made(table).items():
        makers[path] = lambda path=path, content=content: _write(path, content)  # type: ignore[misc]
    for python, path in conda.LOCKS.items():
        makers[path] = lambda python=python: conda_tool.refresh(table, python, optional=all_of_them)  # type: ignore[misc]
    return makers


def _check(table: Table, chosen: list[str]) -> None:
    found = [line for lock in wanted(table) if lock.path in chosen for line in problems(lock)]
    found += redist.problems(table) if any(path in chosen for path in redist.locks(table)) else []
    if names.NAMES in chosen:
        found += names.problems(table)
    has_conda = any(name in chosen for name in (*conda.LOCKS.values(), *conda.made(table)))
    if has_conda:
        found += conda.problems(table) or [*locked_torch.of_conda(table), *conda_tool.problems()]
    if found:
        raise TableError("\n".join(found))
    lacking = conda.unlocked(table) if has_conda else []
    lacking += locked_torch.unlocked(table) if locked_torch.TABLE in chosen else []
    print("".join(f"{line}\n" for line in lacking), end="")
    print(f"{len(chosen)} files are as targets.toml and pyproject.toml want them")


def run(options: argparse.Namespace) -> int:
    table = load()
    makers = _makers(table, all_of_them=not options.paths)
    if unknown := set(options.paths) - set(makers):
        raise RequestError(f"no such lock: {min(unknown)}; there are {', '.join(makers)}")
    chosen = [path for path in makers if not options.paths or path in options.paths]
    if options.check:
        _check(table, chosen)
        return 0
    for path in chosen:
        print(f"{path}: {makers[path]()}", flush=True)
    return 0
