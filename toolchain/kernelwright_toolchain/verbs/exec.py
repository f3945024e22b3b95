# SPDX-License-Identifier: MIT
"""`kwt exec -- COMMAND`: runs a plain build (cmake, make, nvcc …) under the exact compilers, in this directory."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelwright_toolchain import providers
from kernelwright_toolchain.classic import toolkit
from kernelwright_toolchain.classic.run import Ground, refusal
from kernelwright_toolchain.classic.run import run as run_command
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.project import Project, project, serving
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.targets import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--toolkit", metavar="NAME", help="default: the newest that PyPI has whole")
    parser.add_argument("--provider", choices=("pip", "system"), default="pip")
    parser.add_argument("--project", type=Path, metavar="DIR", help="what lies at /kw/source; default: here")
    parser.add_argument("-j", "--jobs", type=int, metavar="N")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")


def run(given: argparse.Namespace) -> int:
    words = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not words:
        raise RequestError("nothing to run: kwt exec -- cmake -S . -B build")
    root = (given.project or Path.cwd()).resolve()
    with serving(Project(root)):
        table = load()
        row = table.toolkits.get(given.toolkit) if given.toolkit else None
        if given.toolkit and row is None:
            raise RequestError(f"toolkit {given.toolkit!r} is not known; there are {', '.join(table.toolkits)}")
        _, home = toolkit.find(row, table, given.provider)
        providers.machine_of(table)
        build = project().state / "build"
        build.mkdir(parents=True, exist_ok=True)
        why = refusal()
        if why:
            print(f"kwt: {why}: what is made here is not exact", file=sys.stderr)
        tools = (host.tools(table, "pip").modules[0],)
        ground = Ground(root, build, home, tools, exact=not why, why=why)
        here = Path.cwd().resolve()
        inner = here.relative_to(root).as_posix() if here.is_relative_to(root) else "."
        return run_command(ground, words, cwd=f"{ground.at('source')}/{inner}", count=given.jobs)
