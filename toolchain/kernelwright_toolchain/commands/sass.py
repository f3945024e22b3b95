# SPDX-License-Identifier: MIT
"""Records in benchmarks/sass.toml what each kernel takes (--write), or says where the default builds differ.

--write reads the images that builds left in the cache, which takes seconds; rows of an image that no build here has
compiled for some code stay as they are, and are named. --all compiles those too.
"""

from __future__ import annotations

import argparse

from kernelwright_toolchain import providers
from kernelwright_toolchain.building import sass
from kernelwright_toolchain.building.run import compiled
from kernelwright_toolchain.device.build import cached_images
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.files import write_if_changed
from kernelwright_toolchain.project import project
from kernelwright_toolchain.request import Request, settled
from kernelwright_toolchain.targets import Table, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--write", action="store_true", help="record; without it: compare, as ./kw build does")
    parser.add_argument("--all", action="store_true", help="with --write: compile what no build has compiled yet")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="compilers at a time, for what is not in the cache")


def run(arguments: argparse.Namespace) -> int:
    table = load()
    toolkit, codes = sass.recorded_set(table)
    names = [code.name for code in codes]
    asked = {"provider": "pip", "toolkit": toolkit.name, "archs": ",".join(names)}
    request = settled(table, asked, fetching=True)
    if arguments.write and not arguments.all:
        found = _from_cache(request, table)
    else:
        built = compiled(request, table, arguments.jobs)
        found = sass.cells(built.images)
        if not arguments.write:
            sass.compare(sass.read(), built.images, names)
            print(f"{sass.FILE} is what the default builds make")
            return 0
    text = sass.text(toolkit.name, names, found)
    print(f"{sass.FILE}: {'written' if write_if_changed(project().root / sass.FILE, text.encode()) else 'unchanged'}")
    return 0


def _from_cache(request: Request, table: Table) -> sass.Cells:
    """What builds have compiled, and what is recorded of the rest, which is said."""
    images, missing = cached_images(request, providers.device_compiler(request.provider, request.toolkit, table))
    if not missing:
        return sass.cells(images)
    print("not compiled by a build yet, so left as recorded (`python -m toolchain sass --write --all` compiles them):")
    for code in dict.fromkeys(job.code.name for job in missing):
        print(f"  {code}: {', '.join(job.op for job in missing if job.code.name == code)}")
    try:
        recorded = sass.read().cells
    except GateError as error:
        raise GateError(f"{error}, with --all: of what no build has compiled yet only that file could tell") from None
    return sass.merged(recorded, sass.cells(images), ((job.op, job.code.name) for job in missing))
