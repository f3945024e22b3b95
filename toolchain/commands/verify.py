# SPDX-License-Identifier: MIT
"""`./kw verify`: makes a wheel again from the recipe in it, and says what is the same and what differs, and why."""

from __future__ import annotations

import argparse
import sys

from toolchain.exact.verify import verify
from toolchain.files import given
from toolchain.targets import ROOT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheel", type=given, metavar="WHEEL")
    parser.add_argument("--source", type=given, metavar="TREE", default=ROOT, help="its sources; default: this tree")
    parser.add_argument(
        "--cached", action="store_true", help="trust this machine's compile cache; without: compile every kernel anew"
    )
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="compilers at a time; without: one a CPU")


def run(arguments: argparse.Namespace) -> int:
    words = arguments
    verdict = verify(words.wheel, words.source.resolve(), cached=words.cached, jobs=words.jobs)
    for line in verdict.lines():
        print(line)
    print(f"\n{verdict.theirs.sha256}  {verdict.theirs.name}\n{verdict.ours.sha256}  rebuilt", flush=True)
    if verdict.found:
        count = len({difference.member for difference in verdict.found})
        print(f"DIFFERENT: {len(verdict.found)} differences in {count} places", file=sys.stderr)
        return 1
    print("SUCCESS: the same bytes")
    return 0
