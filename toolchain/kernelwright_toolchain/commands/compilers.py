# SPDX-License-Identifier: MIT
"""Compares, kernel by kernel, the machine code of NVRTC with that of the nvcc here, of one CUDA release."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelwright_toolchain.building.run import compiled
from kernelwright_toolchain.exact.compilers import furthest, page, row
from kernelwright_toolchain.request import settled
from kernelwright_toolchain.targets import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--archs", metavar="LIST", help="as for build; without: every cubin of this machine's target")
    parser.add_argument("--ops", metavar="LIST", help="operators; without: all")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table there too")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="compilers at a time; without: as many as fit")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 whatever the differences: they are to be known, not to be none."""
    table = load()
    asked = {key: value for key in ("archs", "ops") if (value := getattr(arguments, key))}
    system = settled(table, {**asked, "provider": "system"})
    pip = settled(table, {**asked, "provider": "pip", "toolkit": system.toolkit.name}, fetching=True)
    builds = [compiled(request, table, arguments.jobs).images for request in (pip, system)]
    rows = []
    for nvrtc, nvcc in zip(*builds, strict=True):
        if not nvrtc.spills:  # PTX has no machine code
            continue
        cells, found = row(nvrtc, nvcc)
        rows.append(cells)
        print(f"{nvrtc.op} for {nvrtc.code}: furthest apart {furthest(found)}", flush=True)
    text = page(rows)
    print(f"\nCUDA {system.toolkit.release}, NVRTC / nvcc\n\n{text}", end="")
    if arguments.table:
        arguments.table.write_text(text, encoding="utf-8")
    return 0
