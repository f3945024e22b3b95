# SPDX-License-Identifier: MIT
"""`./kw repro`: builds twice under circumstances that differ in all that this machine can vary; compares every byte."""

from __future__ import annotations

import argparse

from kernelwright_toolchain.building import Options, options
from kernelwright_toolchain.device.compiler import source_of
from kernelwright_toolchain.device.sources import read_sources
from kernelwright_toolchain.exact.repro import repro
from kernelwright_toolchain.project import project
from kernelwright_toolchain.request import find_ops, settings, settled
from kernelwright_toolchain.targets import Table, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_arguments(parser, load())
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the smallest operator for one code and one PTX, and no interpreter whose tools are not here: for CI",
    )


def _smallest(table: Table, given: Options) -> dict[str, str]:
    """The operator with kernels and the least source, for the first cubin and the first PTX of the target."""
    request = settled(table, given.settings(), fetching=True)
    images = {name: of for name, of in find_ops().items() if of}
    sources = {
        image: read_sources(project().root, source_of(project().root, image)) for of in images.values() for image in of
    }
    op = min(images, key=lambda name: sum(len(file.data) for image in images[name] for file in sources[image]))
    kinds = {code.kind: code.name for code in reversed(request.codes)}
    return {"ops": op, "archs": ",".join(kinds.values())}


def run(arguments: argparse.Namespace) -> int:
    words = vars(arguments)
    quick = words.pop("quick")
    given, table = Options(**words), load()
    asked = given.settings()
    if quick:
        asked = {**_smallest(table, given), **asked}
    request = settled(table, asked, fetching=True)
    digest, found, count = repro(project().root, settings(request), jobs=given.jobs, quick=quick)
    for difference in found:
        print(difference)
    if found:
        print(f"DIFFERENT: {len(found)} differences between builds of the same sources")
        return 1
    print(f"three builds, {count} members each: the same bytes, sha256 {digest}\nSUCCESS")
    return 0
