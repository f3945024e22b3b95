# SPDX-License-Identifier: MIT
"""Records in benchmarks/sass.toml what each kernel takes (--write), or says where the default build differs."""

from __future__ import annotations

import argparse

from toolchain.building import sass
from toolchain.building.run import compiled
from toolchain.errors import GateError
from toolchain.files import write_if_changed
from toolchain.pep517 import settled
from toolchain.targets import ROOT, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--write", action="store_true", help="record; without it: compare, as ./kw build does")
    parser.add_argument("--target", metavar="NAME", help="whose default set to record; without: the recorded one")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="compilers at a time, for what is not in the cache")


def _target(asked: str | None) -> dict[str, str]:
    """The target to compile for; a file that cannot be read, such as one with two versions in it, names none."""
    if asked:
        return {"target": asked}
    try:
        return {"target": sass.read().target}
    except GateError:
        return {}


def run(arguments: argparse.Namespace) -> int:
    table = load()
    request = settled(table, {"provider": "pip", **_target(arguments.target)}, fetching=True)
    built = compiled(request, table, arguments.jobs)
    if not arguments.write:
        sass.check(request, built.images)
        print(f"{sass.FILE} is what the default build makes")
        return 0
    written = write_if_changed(ROOT / sass.FILE, sass.text(request, sass.cells(built.images)).encode())
    print(f"{sass.FILE}: {'written' if written else 'unchanged'}")
    return 0
