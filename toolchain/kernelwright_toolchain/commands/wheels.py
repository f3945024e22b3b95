# SPDX-License-Identifier: MIT
"""`./kw wheels`: the wheels of every target, or of other toolkits, from this one machine; and what they take."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace

from kernelwright_toolchain.building import Options, build
from kernelwright_toolchain.building.publish import SUMS
from kernelwright_toolchain.building.release import Made, able, made, page, plan, put
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.files import given
from kernelwright_toolchain.project import project
from kernelwright_toolchain.targets import Table, load


def _names(text: str) -> list[str]:
    return [word for word in re.split(r"[;,\s]+", text) if word]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    table = load()
    add = parser.add_argument
    add("--targets", type=_names, default=[], metavar="LIST", help=f"some of {', '.join(table.targets)}; without: all")
    add(
        "--toolkits",
        type=_names,
        default=[],
        metavar="LIST",
        help=f"some of {', '.join(table.toolkits)}, for the released targets; without: each target's own",
    )
    add("--table", type=given, metavar="FILE", help="put the tables there too; a document's are replaced")
    add("-j", "--jobs", type=int, metavar="N", help="compilers at a time; without: as many as fit")


def _build_all(table: Table, wanted: Sequence[Options]) -> tuple[list[Made], list[GateError]]:
    """All that pass; what a gate refuses is told, and keeps nobody else's wheel from being made."""
    good, refused = [], []
    for options in wanted:
        try:
            one = made(table, options, build(options, table))
        except GateError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            refused.append(error)
            continue
        good.append(one)
        print(f"{one.wheel.name}: {one.size:,} bytes, {one.seconds:.0f} s", flush=True)
    return good, refused


def run(arguments: argparse.Namespace) -> int:
    table, jobs = load(), arguments.jobs
    if arguments.table:
        able(arguments.table)
    good, refused = _build_all(
        table, [replace(o, jobs=jobs) for o in plan(table, arguments.targets, arguments.toolkits)]
    )
    if good:
        text = page(good)
        print(f"\n{text}\n{(project().dist / SUMS).read_text(encoding='utf-8')}", end="")
        if arguments.table:
            put(arguments.table, text)
    if refused:
        raise GateError(
            f"{len(refused)} of {len(good) + len(refused)} wheels were not made:\n" + "\n".join(map(str, refused))
        )
    print("SUCCESS")
    return 0
