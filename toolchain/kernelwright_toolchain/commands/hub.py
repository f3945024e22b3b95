# SPDX-License-Identifier: MIT
"""`python -m toolchain hub WHEEL… --out FOLDER`: the released wheels as Hugging Face's `kernels` loads them."""

from __future__ import annotations

import argparse

from kernelwright_toolchain.files import given
from kernelwright_toolchain.hub.folder import VARIANT, make
from kernelwright_toolchain.locking.wanted import pyproject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheels", nargs="+", type=given, metavar="WHEEL", help="one for each machine")
    parser.add_argument("--out", type=given, required=True, metavar="FOLDER", help="empty, or not there yet")


def run(options: argparse.Namespace) -> int:
    package = str(pyproject()["project"]["name"])
    version = make(options.wheels, options.out, package)
    print(f"{options.out / VARIANT}: {package} {version}")
    return 0
