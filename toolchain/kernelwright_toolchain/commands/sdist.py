# SPDX-License-Identifier: MIT
"""`python -m toolchain sdist`: the source distribution into dist/, by the locked tools: the same bytes everywhere."""

from __future__ import annotations

import argparse
import sys

from kernelwright_toolchain import pep517
from kernelwright_toolchain.building.stamp import digest_of
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.targets import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None: it holds the tree as it is."""


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - every verb's
    sys.path[:0] = map(str, host.provision(load()).modules)
    project().dist.mkdir(exist_ok=True)
    made = project().dist / pep517.build_sdist(str(project().dist))
    print(f"{project().shown(made)}  {made.stat().st_size:,} bytes\nsha256 {digest_of(made)}\nSUCCESS")
    return 0
