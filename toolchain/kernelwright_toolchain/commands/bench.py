# SPDX-License-Identifier: MIT
"""`./kw bench`: installs the wheel and times every operator. What is not an option here is benchmarks/run.py's: --help.

--torch installed|SPEC says which torch it is compared with, as for `./kw tests`.
"""

from __future__ import annotations

import argparse

from kernelwright_toolchain.building import Options, build
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.testing import run_bench, to_compare


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.prefix_chars = "\0"  # every word is ours or the benchmarks' to read, also those with a dash
    parser.add_argument("arguments", nargs="*")


def run(given: argparse.Namespace) -> int:
    parser = argparse.ArgumentParser(prog="./kw bench --", add_help=False, allow_abbrev=False)
    parser.add_argument("--torch", metavar="installed|SPEC")
    options, rest = parser.parse_known_args(given.arguments)
    torch = to_compare(options.torch)
    return run_bench(build(Options(), load()).wheel, torch, rest)
