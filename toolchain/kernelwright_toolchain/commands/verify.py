# SPDX-License-Identifier: MIT
"""`./kw verify`: makes a wheel again from the recipe in it, and says what is the same and what differs, and why."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelwright_toolchain.exact import quick, text
from kernelwright_toolchain.exact.verify import verify
from kernelwright_toolchain.files import given
from kernelwright_toolchain.project import project


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheel", type=given, metavar="WHEEL")
    parser.add_argument("--source", type=given, metavar="TREE", default=None, help="its sources; default: this tree")
    parser.add_argument(
        "--cached", action="store_true", help="trust this machine's compile cache; without: compile every kernel anew"
    )
    parser.add_argument(
        "--quick", action="store_true", help="against the sha256 that the tree records; compiles nothing, takes seconds"
    )
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="compilers at a time; without: one a CPU")


def _quick(path: Path, tree: Path) -> int:
    given, same, wrong = quick.verify(path, tree)
    for name in same:
        print(text.printable(f"same       {name}"))
    for difference in wrong:
        print(text.printable(f"different  {difference}"))
    print(f"\n{given.sha256}  {text.printable(given.name)}", flush=True)
    if wrong:
        print(f"DIFFERENT: {len(wrong)} differences from what the tree records", file=sys.stderr)
        return 1
    rest = len(given.members) - len(same)
    print(f"SUCCESS: {len(same)} members are as recorded or in the tree; the {rest} others are for a whole `verify`")
    return 0


def run(arguments: argparse.Namespace) -> int:
    words = arguments
    tree = (words.source or project().root).resolve()
    if words.quick:
        return _quick(words.wheel, tree)
    verdict = verify(words.wheel, tree, cached=words.cached, jobs=words.jobs)
    for line in verdict.lines():
        print(line)
    print(f"\n{verdict.theirs.sha256}  {verdict.theirs.name}\n{verdict.ours.sha256}  rebuilt", flush=True)
    if verdict.found:
        count = len({difference.member for difference in verdict.found})
        print(f"DIFFERENT: {len(verdict.found)} differences in {count} places", file=sys.stderr)
        return 1
    print("SUCCESS: the same bytes")
    return 0
