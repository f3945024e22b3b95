# SPDX-License-Identifier: MIT
"""Compares the C ABI of the headers with the recorded one, csrc/include/abi.json; --write records it."""

from __future__ import annotations

import argparse

from kernelwright_toolchain.abi import promise
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.files import write_if_changed
from kernelwright_toolchain.project import project


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--write", action="store_true", help="record this version's; what an earlier one had stays")
    parser.add_argument("--release", action="store_true", help="fail unless this version's record is whole")


def run(arguments: argparse.Namespace) -> int:
    path, wanted = project().root / promise.RECORD, promise.text(project().root)
    if arguments.write:
        print(f"{promise.RECORD}: {'written' if write_if_changed(path, wanted) else 'unchanged'}")
    found, new = promise.check(project().root), promise.now(project().root)
    print(f"ABI {new.number} of {new.version}: {len(new.functions)} functions, {len(new.constants)} constants")
    for name in found.added:
        print(f"  new, and not recorded yet: {name}")
    if arguments.release and path.read_bytes() != wanted:
        raise GateError(f"{promise.RECORD} is not what this tree has; record it by `{promise.COMMAND}` and commit it")
    return 0
