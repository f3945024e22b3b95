# SPDX-License-Identifier: MIT
"""`python -m toolchain compare DIR…`: one wheel that several machines or environments made, one directory each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelwright_toolchain.exact.several import Build, builds, differences, table
from kernelwright_toolchain.files import given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", type=given, nargs="+", metavar="DIR", help="with the wheels of one build")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="the table is added to it, in Markdown")


def _told(found: list[Build], summary: Path | None) -> None:
    print(table(found))
    if summary:
        with summary.open("a", encoding="utf-8") as file:
            file.write(f"{table(found)}\n")


def run(arguments: argparse.Namespace) -> int:
    found = builds(arguments.folders)
    _told(found, arguments.summary)
    wrong = [*differences(found)]
    for line in wrong:
        print(line)
    if wrong:
        print(f"DIFFERENT: {len(wrong)} differences to what {found[0].name} made", file=sys.stderr)
        return 1
    print(f"SUCCESS: the same bytes from {len(found)} builds")
    return 0
