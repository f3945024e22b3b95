# SPDX-License-Identifier: MIT
"""Records in benchmarks/sass.toml what each kernel takes (--write), or says where the default builds differ."""

from __future__ import annotations

import argparse

from kernelwright_toolchain.building import sass
from kernelwright_toolchain.building.run import compiled
from kernelwright_toolchain.files import write_if_changed
from kernelwright_toolchain.pep517 import settled
from kernelwright_toolchain.project import project
from kernelwright_toolchain.targets import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--write", action="store_true", help="record; without it: compare, as ./kw build does")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="compilers at a time, for what is not in the cache")


def run(arguments: argparse.Namespace) -> int:
    table = load()
    toolkit, codes = sass.recorded_set(table)
    names = [code.name for code in codes]
    asked = {"provider": "pip", "toolkit": toolkit.name, "archs": ",".join(names)}
    built = compiled(settled(table, asked, fetching=True), table, arguments.jobs)
    if not arguments.write:
        sass.compare(sass.read(), built.images, names)
        print(f"{sass.FILE} is what the default builds make")
        return 0
    text = sass.text(toolkit.name, names, sass.cells(built.images))
    print(f"{sass.FILE}: {'written' if write_if_changed(project().root / sass.FILE, text.encode()) else 'unchanged'}")
    return 0
