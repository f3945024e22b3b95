# SPDX-License-Identifier: MIT
"""`python -m toolchain sdist`: the source distribution into dist/, by the locked tools: the same bytes everywhere.

--toolchain makes the other distribution instead, kernelwright-toolchain: its sdist and its wheel, all of it text.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from kernelwright_toolchain import pep517
from kernelwright_toolchain.building.stamp import digest_of
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.targets import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--toolchain", action="store_true", help="kernelwright-toolchain's sdist and wheel instead")


_HOOKS = """
import sys
sys.path.insert(0, ".")
from kernelwright_toolchain.distribution import backend
print(backend.build_sdist(sys.argv[1]))
print(backend.build_wheel(sys.argv[1]))
"""


def _of_the_toolchain(dist: Path) -> list[Path]:
    """By its own backend, which works in the folder that it packs."""
    command = [sys.executable, "-c", _HOOKS, str(dist.resolve())]
    done = subprocess.run(command, cwd=project().root / "toolchain", stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise GateError(f"kernelwright-toolchain's backend ended with {done.returncode}; it said why above")
    return [dist / name for name in done.stdout.split()]


def _own(dist: Path) -> list[Path]:
    sys.path[:0] = map(str, host.provision(load()).modules)
    return [dist / pep517.build_sdist(str(dist))]


def run(arguments: argparse.Namespace) -> int:
    dist = project().dist
    dist.mkdir(exist_ok=True)
    for made in _of_the_toolchain(dist) if arguments.toolchain else _own(dist):
        print(f"{project().shown(made)}  {made.stat().st_size:,} bytes\nsha256 {digest_of(made)}")
    print("SUCCESS")
    return 0
