# SPDX-License-Identifier: MIT
"""`kwt verify WHEEL`: makes a wheel again from the recipe in it, and says what differs, why, and what cures it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from kernelwright_toolchain.classic import build as classic
from kernelwright_toolchain.classic import differ, source
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.packages import build as packages
from kernelwright_toolchain.packages import stage
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.verbs._project import add_project, opened
from kernelwright_toolchain.version import VERSION


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser)
    parser.add_argument("wheel", type=Path, metavar="WHEEL")
    parser.add_argument("-j", "--jobs", type=int, metavar="N")


def run(given: argparse.Namespace) -> int:
    recipe = differ.recipe(given.wheel)
    if recipe["toolchain"] != VERSION:
        raise RequestError(
            f"{given.wheel.name} was made by kernelwright-toolchain {recipe['toolchain']}, and this is {VERSION}: "
            f"pip install kernelwright-toolchain=={recipe['toolchain']}, then verify again"
        )
    wheel = given.wheel.resolve()
    with opened(given) as settings, tempfile.TemporaryDirectory(prefix="verify-") as out:
        if settings.kernels:
            kernels = packages.kernels_of(settings)
            files = ["pyproject.toml", *(path.as_posix() for path in stage.sources(settings.root, kernels))]
            here = {name: differ.digest(settings.root / name) for name in files}
            made = packages.build(settings, load(), Path(out), recipe["build"], given.jobs).wheel
        else:
            here = source.digests(settings.root)
            made = classic.build(
                settings, load(), Path(out), recipe["build"], jobs=given.jobs, provider=recipe["provider"]
            ).wheel
        found = [*differ.inputs(recipe["inputs"], here), *differ.wheels(wheel, made)]
        print(f"{differ.sha256(wheel)}  {wheel.name}\n{differ.sha256(made)}  rebuilt")
    for line in found:
        print(f"different  {line}")
    if found:
        print(f"DIFFERENT: {len(found)} differences", file=sys.stderr)
        return 1
    print("SUCCESS: the same bytes")
    return 0
