# SPDX-License-Identifier: MIT
"""`kwt build`: the project's wheel, by locked compilers, into dist/."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelwright_toolchain.classic import build as classic
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.packages import build as packages
from kernelwright_toolchain.project import project
from kernelwright_toolchain.settings import Settings
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.verbs._project import add_choice, add_project, chosen, opened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser)
    add_choice(parser)
    parser.add_argument("--provider", choices=("pip", "system"), default="pip", help="where nvcc is from")
    parser.add_argument("--require-exact", action="store_true", help="fail where the wheel would be labelled +inexact")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: dist")


def _classic(given: argparse.Namespace, settings: Settings, out: Path) -> int:
    made = classic.build(settings, load(), out, chosen(given), jobs=given.jobs, provider=given.provider)
    for reason in made.inexact:
        print(f"inexact: {reason}")
    if made.inexact:
        print("The version has a label, and PyPI takes no wheel with one.")
        if given.require_exact:
            made.wheel.unlink()
            raise GateError(f"{made.wheel.name} is not exact, and --require-exact was given: {made.inexact[0]}")
    print(f"\n{made.wheel}  {made.wheel.stat().st_size:,} bytes\nsha256 {made.sha256}\nSUCCESS")
    return 0


def run(given: argparse.Namespace) -> int:
    with opened(given) as settings:
        out = (given.out or project().dist).resolve()
        if not settings.kernels:
            return _classic(given, settings, out)
        made = packages.build(settings, load(), out, chosen(given), given.jobs)
        for image in made.built.images:
            served = f"  packed as {image.served_by}" if image.served_by else ""
            print(f"{image.op:<20} {image.code:<12} {len(image.data):>9,} bytes {image.registers:>4} registers{served}")
        print(f"\n{made.wheel}  {made.wheel.stat().st_size:,} bytes\nsha256 {made.sha256}\nSUCCESS")
    return 0
