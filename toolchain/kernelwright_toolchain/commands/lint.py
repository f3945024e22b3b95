# SPDX-License-Identifier: MIT
"""`./kw lint`: ruff, mypy --strict, clang-format, the rules about the tree, the locks; no GPU, no compiler."""

from __future__ import annotations

import argparse

from kernelwright_toolchain.testing import run_lint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.prefix_chars = "\0"  # all options are pytest's
    parser.add_argument("arguments", nargs="*", metavar="pytest's options for the layout tests")


def run(given: argparse.Namespace) -> int:
    return run_lint(given.arguments)
