# SPDX-License-Identifier: MIT
"""`kwt ci`: writes a workflow that builds wheels twice, compares and publishes them, and a script that installs one."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path

from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.request import find_target
from kernelwright_toolchain.settings import Settings
from kernelwright_toolchain.targets import Table, load
from kernelwright_toolchain.verbs import lock
from kernelwright_toolchain.verbs._project import add_project, opened
from kernelwright_toolchain.version import VERSION
from kernelwright_toolchain.workflows import render

WORKFLOW, SCRIPT = Path(".github/workflows/wheels.yml"), Path("install.sh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser)
    parser.add_argument("--branch", metavar="NAME", help="whose pushes are built; default: what git says, or main")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: the project")
    parser.add_argument("--force", action="store_true", help="write over files that are others")


def _branch(root: Path) -> str:
    """The one that the remote shows first, else the one that is checked out."""
    for words in (("--quiet", "refs/remotes/origin/HEAD"), ("--quiet", "HEAD")):
        command = ["git", "-c", "safe.directory=*", "-C", str(root), "symbolic-ref", "--short", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False) if shutil.which("git") else None
        if done and done.returncode == 0:
            return done.stdout.strip().removeprefix("origin/")
    return "main"


def _targets(settings: Settings, table: Table, machine: str) -> list[str]:
    """Those that this kind of runner can build; RequestError for one that it cannot."""
    names = list(settings.targets) or [find_target(table, machine=machine).name]
    for name in names:
        row = find_target(table, name)
        if not settings.kernels and row.system and row.system.userland == "tegra":
            raise RequestError(
                f"targets names {name}, whose CUDA libraries are the board's own: a project's own build is compiled "
                f"there, and the workflow's runners are {machine}. Leave it out, or make a device-only package"
            )
    return names


def _packages(settings: Settings, table: Table, machine: str) -> str:
    """Of the runner's distribution: a GCC for each other machine."""
    rows = [find_target(table, name) for name in settings.targets]
    return " ".join(sorted({f"g++-{row.triple}" for row in rows if row.machine != machine and not settings.kernels}))


def _values(settings: Settings, root: Path, branch: str) -> dict[str, str]:
    pinned = render.pins()
    runner = pinned["runner"]["x86_64"]
    config = f"--config {os.path.relpath(settings.config, root)} " if settings.config else ""
    if config and ".." in config:
        raise RequestError(f"{settings.config} lies outside {root}: a runner has the project alone; move it inside")
    return {
        **{name: f"{name}@{pin['commit']} # {pin['version']}" for name, pin in pinned["action"].items()},
        "runner": runner["label"], "version": VERSION, "branch": json.dumps(branch), "config": config,
        "targets": " ".join(_targets(settings, load(), "x86_64")),
        "packages": json.dumps(_packages(settings, load(), "x86_64")), "name": settings.name,
    }  # fmt: skip


def texts(settings: Settings, root: Path, branch: str | None) -> dict[Path, str]:
    """What is to lie below the root; RequestError for what a runner could not build."""
    values = _values(settings, root, branch or _branch(root))
    return {
        path: render.fill((render.TEMPLATES / "project" / f"{path.name}.in").read_text("utf-8"), values, path.name)
        for path in (WORKFLOW, SCRIPT)
    }


def run(given: argparse.Namespace) -> int:
    with opened(given) as settings:
        root = project().root
        out = (given.out or root).resolve()
        made = texts(settings, root, given.branch)
        for path, text in made.items():
            if (out / path).is_file() and (out / path).read_text("utf-8") != text and not given.force:
                raise RequestError(f"{out / path} is there already and another; --force writes over it")
        for path, text in made.items():
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_text(text, encoding="utf-8")
            print(out / path)
        if missing := lock.missing(settings):
            print(f"Run kwt lock: without {' and '.join(missing)} wheels are labelled, and the job ends there")
        return 0
