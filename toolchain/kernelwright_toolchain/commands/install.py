# SPDX-License-Identifier: MIT
"""`./kw install`: takes a wheel by target, toolkit, version and sha256 from where it is offered, else builds it."""

from __future__ import annotations

import argparse

from kernelwright_toolchain.building import Options, options
from kernelwright_toolchain.building.install import environment, get, install, request_of
from kernelwright_toolchain.exact import wheel
from kernelwright_toolchain.targets import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--from", dest="place", metavar="DIR|URL", help="where wheels lie with their SHA256SUMS; without: build")
    add("--version", metavar="VERSION", help="without: this tree's, the only one that it can build")
    add("--sha256", metavar="HEX", help="the only bytes to accept, wherever they come from")
    add("--python", metavar="PYTHON", help="whose environment to install into; without: the active one")
    options.add_arguments(parser, load())


def run(arguments: argparse.Namespace) -> int:
    words = vars(arguments)
    place, version, sha256, python = (words.pop(name) for name in ("place", "version", "sha256", "python"))
    given, table = Options(**words), load()
    into = environment(python)
    got = get(given, table, place, version, sha256)
    print(f"{got.wheel}\nsha256 {wheel.read(got.wheel).sha256}\n{got.words}", flush=True)
    if into is None:
        print(f"no environment is active and no --python was given, so it is not installed; pip install {got.wheel}")
        return 0
    print(f"installed into {into}: {install(got.wheel, into, request_of(given, table))}")
    return 0
