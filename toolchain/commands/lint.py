# SPDX-License-Identifier: MIT
"""`./kw lint`: ruff, mypy --strict, clang-format, the rules about the tree, the locks; no GPU, no compiler."""

from __future__ import annotations

import argparse

from toolchain.testing import run_lint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="[pytest's options]")


def run(given: argparse.Namespace) -> int:
    return run_lint(given.arguments)
