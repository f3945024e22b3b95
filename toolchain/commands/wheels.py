# SPDX-License-Identifier: MIT
"""`./kw wheels`: the wheels of every target, or of other toolkits, from this one machine; and what they take."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from toolchain.building.release import build_all, page, plan
from toolchain.targets import load


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
    add("--table", type=Path, metavar="FILE", help="write the table of time and size there too")
    add("-j", "--jobs", type=int, metavar="N", help="compilers at a time; without: as many as fit")


def run(arguments: argparse.Namespace) -> int:
    table = load()
    made = []
    for one in build_all(table, [*plan(table, arguments.targets, arguments.toolkits)], arguments.jobs):
        made.append(one)
        print(f"{one.wheel.name}: {one.size:,} bytes, {one.seconds:.0f} s", flush=True)
    text = page(made)
    print(f"\n{text}\n{(made[0].wheel.parent / 'SHA256SUMS').read_text(encoding='utf-8')}SUCCESS")
    if arguments.table:
        arguments.table.write_text(text, encoding="utf-8")
    return 0
