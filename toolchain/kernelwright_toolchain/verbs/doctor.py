# SPDX-License-Identifier: MIT
"""`kwt doctor`: what this machine has, what is wrong with it and the fix, and whether kwt builds exactly here."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelwright_toolchain import diagnosis
from kernelwright_toolchain.classic import run as classic
from kernelwright_toolchain.errors import KwError
from kernelwright_toolchain.project import Project, serving
from kernelwright_toolchain.providers import machine_of, system
from kernelwright_toolchain.targets import load

FORWARDS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Takes --json, --redact, --torch and --html FILE, as `python -m kernelwright doctor` does."


def _lines() -> list[str]:
    """What an exact build needs, which the doctor does not look at."""
    table, why = load(), classic.refusal()
    try:
        gcc = system.find_gcc()
        takes = [row.name for row in table.toolkits.values() if row.gcc.accepts(gcc.version.major)]
        host = f"{gcc.version} at {gcc.path}; nvcc of {', '.join(takes) or 'no toolkit of the table'} takes it"
    except KwError as error:
        host = str(error)
    whole = [row.name for row in table.toolkits.values() if row.nvcc and machine_of(table) in row.nvcc.locks]
    return [
        f"exact        {f'no: {why}; wheels are +inexact' if why else 'yes: namespaces can be made here'}",
        f"host GCC     {host}",
        f"nvcc         by hash: {', '.join(whole) or 'none for this machine'}; others by --provider system",
    ]


def run(given: argparse.Namespace) -> int:
    with serving(Project(Path.cwd())):
        if not {"--json", "-h", "--help"} & {*given.rest}:
            print("\n".join(["kwt", *_lines(), ""]), flush=True)
        return diagnosis.run("doctor", ["--machine", *given.rest])
