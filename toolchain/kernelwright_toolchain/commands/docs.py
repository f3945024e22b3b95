# SPDX-License-Identifier: MIT
"""`./kw docs`: the documentation as a site, by the Sphinx of locks/docs.txt; nothing is fetched but those packages."""

from __future__ import annotations

import argparse

from kernelwright_toolchain.files import given
from kernelwright_toolchain.locking.wanted import pyproject
from kernelwright_toolchain.project import project
from kernelwright_toolchain.testing import run_docs

FOLDER = "build/docs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=given, metavar="FOLDER", help=f"emptied first; without: {FOLDER}")
    parser.add_argument("--commits", default="", metavar="ADDRESS", help="the beginning of a commit's page, for links")


def run(options: argparse.Namespace) -> int:
    out = options.out or project().root / FOLDER
    return run_docs(out, str(pyproject()["project"]["version"]), options.commits)
