# SPDX-License-Identifier: MIT
"""`./kw lock`: makes the lock files anew from targets.toml and pyproject.toml, or says which are stale."""

from __future__ import annotations

import argparse

from toolchain.errors import RequestError, TableError
from toolchain.locking.resolve import resolve
from toolchain.locking.wanted import wanted
from toolchain.locking.write import problems, text
from toolchain.targets import ROOT, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a lock is stale (no network)")
    parser.add_argument("paths", nargs="*", help="only these, as in locks/nox.txt")


def run(options: argparse.Namespace) -> int:
    locks = wanted(load())
    if unknown := set(options.paths) - {lock.path for lock in locks}:
        raise RequestError(f"no such lock: {min(unknown)}; there are {', '.join(lock.path for lock in locks)}")
    chosen = [lock for lock in locks if not options.paths or lock.path in options.paths]
    if options.check:
        if found := [line for lock in chosen for line in problems(lock)]:
            raise TableError("\n".join(found))
        print(f"{len(chosen)} locks are as targets.toml and pyproject.toml want them")
        return 0
    for lock in chosen:
        content = text(lock, resolve(lock))
        path = ROOT / lock.path
        same = path.is_file() and path.read_text(encoding="utf-8") == content
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
        print(f"{lock.path}: {'unchanged' if same else 'written'}", flush=True)
    return 0
