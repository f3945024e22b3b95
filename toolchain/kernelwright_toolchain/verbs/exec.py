# SPDX-License-Identifier: MIT
"""`kwt exec -- COMMAND`: runs a plain build (cmake, make, setup.py …) under the exact compilers, in this directory."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from kernelwright_toolchain.classic import build as classic
from kernelwright_toolchain.classic import requirements, torch
from kernelwright_toolchain.classic.run import SITE, Ground, ignored, refusal
from kernelwright_toolchain.classic.run import run as run_command
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.project import Project, project, serving
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.request import codes_of, find_target
from kernelwright_toolchain.settings import SECTION, Settings, read
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.targets.read import toml

_TORCH_CUDA = "KWT_TORCH_CUDA"  # classic/sitecustomize.py reads it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--toolkit", metavar="NAME", help="default: the table's, else the newest that PyPI has whole")
    parser.add_argument("--provider", choices=("pip", "system"), default="pip")
    parser.add_argument("--project", type=Path, metavar="DIR", help="what lies at /kw/source; default: here")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the table, where the sources stay as they are")
    parser.add_argument("-j", "--jobs", type=int, metavar="N")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")


def _settings(root: Path, config: Path | None) -> Settings | None:
    """The project's table; a plain build may have none."""
    own = root / "pyproject.toml"
    if config is None and (
        not own.is_file() or "kernelwright" not in toml(own.read_text(encoding="utf-8"), str(own)).get("tool", {})
    ):
        return None
    return read(root, config.resolve() if config else None)


def _ground(given: argparse.Namespace, root: Path, settings: Settings, *, tabled: bool) -> Ground:
    rows = load()
    why: list[str] = []
    kit, home = classic.find_toolkit(settings, rows, given.toolkit, given.provider, why)
    locked = classic.locked_compiler(settings, kit, why)
    environment = locked.variables() if locked else classic.host_compiler(home, kit)[1]
    tools = [host.tools(rows, "pip").modules[0]]
    if tabled:
        codes = codes_of(rows, find_target(rows), kit, settings.archs_of(find_target(rows).name))
        environment |= classic.said_archs(settings, classic.arch_words(codes))
    elif arch := os.environ.get("TORCH_CUDA_ARCH_LIST"):  # nobody else says it
        environment["TORCH_CUDA_ARCH_LIST"] = arch
    if settings.backend:
        needed = requirements.wanted(root, settings.backend, settings.torch, settings.requires)
        tools += requirements.installed(settings.locks, needed, why)
    if settings.torch != "none":
        torch.complete(tuple(tools), str(shutil.which("cc") or "cc"))
        environment[_TORCH_CUDA] = str(kit.release)
    reason = home.spread or refusal()
    if reason:
        why.append(f"no namespaces ({reason})")
    for words in why:
        print(f"inexact: {words}", file=sys.stderr)
    build = project().state / "build"
    build.mkdir(parents=True, exist_ok=True)
    return Ground(root, build, home, tuple(tools), exact=not reason, why=reason, environment=environment, gcc=locked)


def run(given: argparse.Namespace) -> int:
    words = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not words:
        raise RequestError("nothing to run: kwt exec -- cmake -S . -B build")
    root = (given.project or Path.cwd()).resolve()
    with serving(Project(root)):
        found = _settings(root, given.config)
        if found and found.kernels:
            raise RequestError(f"[{SECTION}.kernel] says how this project is built: `kwt build`, which runs no command")
        if odd := ignored():
            print(f"not passed on: {', '.join(odd)}", file=sys.stderr)
        ground = _ground(given, root, found or Settings(root, root.name, "0"), tabled=found is not None)
        here = Path.cwd().resolve()
        inner = here.relative_to(root).as_posix() if here.is_relative_to(root) else "."
        modules = [ground.at(SITE), *(ground.at(f"tools{number}") for number in range(len(ground.tools)))]
        ground = replace(ground, environment={**ground.environment, "PYTHONPATH": os.pathsep.join(modules)})
        return run_command(ground, words, cwd=f"{ground.at('source')}/{inner}", count=given.jobs)
