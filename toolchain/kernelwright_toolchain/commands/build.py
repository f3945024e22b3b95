# SPDX-License-Identifier: MIT
"""`./kw build`: from sources to a checked wheel."""

from __future__ import annotations

import argparse

from kernelwright_toolchain.building import Options, budgets, build, options, recorded
from kernelwright_toolchain.building.table import megabytes
from kernelwright_toolchain.building.table import table as as_table
from kernelwright_toolchain.project import project
from kernelwright_toolchain.targets import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_arguments(parser, load())


def run(arguments: argparse.Namespace) -> int:
    given, table = Options(**vars(arguments)), load()
    outcome = build(given, table)
    wheel, stamp = outcome.wheel, outcome.stamp
    took = f"{stamp.library.seconds:.1f} s, largest process {megabytes(stamp.library.peak)} MB"
    print(f"{as_table(stamp.rows)}\nthe library and the wheel: {took}")
    if stamp.shares:
        print(f"\n{budgets.as_table(stamp.shares, held=stamp.held)}")
    said = stamp.check.removesuffix("SUCCESS").strip()
    print(f"\nself-check {said}" if "\n" not in said else f"\n{said}" if outcome.fresh else "\nself-check passed then")
    how = f"built in {stamp.seconds:.1f} s" if outcome.fresh else "unchanged"
    print(
        f"\n{wheel.relative_to(project().root)}  {wheel.stat().st_size:,} bytes, {how}\nsha256 {stamp.sha256}",
        flush=True,
    )
    print(recorded.check(wheel, outcome.request))
    print("SUCCESS")
    return 0
