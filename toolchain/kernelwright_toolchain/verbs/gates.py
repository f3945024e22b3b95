# SPDX-License-Identifier: MIT
"""`kwt gates WHEEL`: says of a wheel that kwt made what it must be, each with what is wrong."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path

from kernelwright_toolchain.classic import differ, gates
from kernelwright_toolchain.errors import GateError, RequestError

PYPI = 100_000_000  # bytes of a file that PyPI takes from a project that did not ask for more


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheel", type=Path, metavar="WHEEL")


def _upload(wheel: Path) -> str:
    if "+" in wheel.name.split("-")[1]:
        return f"no: the version {wheel.name.split('-')[1]} has a label, and PyPI takes none"
    if wheel.name.rsplit("-", 1)[-1].startswith("linux_"):
        return "no: PyPI takes no plain linux_… wheel"
    size = wheel.stat().st_size
    return f"no: {size:,} bytes are more than {PYPI:,}" if size > PYPI else "yes"


def run(given: argparse.Namespace) -> int:
    recipe = differ.recipe(given.wheel)
    if "backend" not in recipe:
        raise RequestError(
            f"{given.wheel.name} is a device-only package, whose gates are those of its build: kwt verify {given.wheel}"
        )
    with zipfile.ZipFile(given.wheel) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
    wrong = 0
    for name, words in gates.told(members, recipe):
        wrong += bool(words)
        print(f"{'fails' if words else 'ok':<6}{name}{f': {words}' if words else ''}")
    for reason in recipe["inexact"]:
        print(f"inexact: {reason}")
    print(f"PyPI  {_upload(given.wheel)}")
    if wrong:
        raise GateError(f"{given.wheel.name}: {wrong} of {len(gates.GATES)} gates fail")
    print("SUCCESS")
    return 0
