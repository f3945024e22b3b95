# SPDX-License-Identifier: MIT
"""Says how many bytes a library loads of each source's objects; CMake asks it, for what a family takes of a wheel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain.files import write_if_changed
from kernelwright_toolchain.wheel.shares import object_sizes

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--list", type=Path, required=True, metavar="FILE", help="the object files, one a line")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="what to write: source -> bytes")


def run(arguments: argparse.Namespace) -> int:
    objects = [Path(line) for line in arguments.list.read_text(encoding="utf-8").splitlines() if line]
    write_if_changed(arguments.out, (json.dumps(object_sizes(objects), indent=1) + "\n").encode())
    return 0
