# SPDX-License-Identifier: MIT
"""What every verb asks: which project, which table."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelwright_toolchain.project import Project, serving
from kernelwright_toolchain.settings import Settings, read


def add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", type=Path, metavar="DIR", help="default: where you are, or above it")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the table, where the sources stay as they are")


def add_choice(parser: argparse.ArgumentParser) -> None:
    for name, what in (
        ("target", "a row of the table of targets"),
        ("toolkit", "another row"),
        ("archs", "80;90+ptx …"),
    ):
        parser.add_argument(f"--{name}", metavar="NAME", help=f"{what}; default: the project's")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="compilers at a time; default: by CPUs and memory")


def chosen(given: argparse.Namespace) -> dict[str, str | None]:
    return {name: getattr(given, name) for name in ("target", "toolkit", "archs")}


@contextmanager
def opened(given: argparse.Namespace) -> Iterator[Settings]:
    """The project's table; while the block runs, what is fetched and cached goes into that project's .kw."""
    start = (given.project or Path.cwd()).resolve()
    found = Project(start) if given.config else Project.around(start)
    with serving(found):
        yield read(found.root, given.config.resolve() if given.config else None)
