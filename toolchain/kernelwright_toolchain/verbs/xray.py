# SPDX-License-Identifier: MIT
"""`kwt xray FILE`: looks into a wheel, a library or a folder, whoever made it, and says where it will run."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelwright_toolchain import diagnosis
from kernelwright_toolchain.project import Project, serving

FORWARDS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Takes what `python -m kernelwright xray` takes; `kwt xray` alone lists it."


def run(given: argparse.Namespace) -> int:
    with serving(Project(Path.cwd())):
        return diagnosis.run("xray", given.rest)
