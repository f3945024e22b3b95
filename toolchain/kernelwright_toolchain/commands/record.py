# SPDX-License-Identifier: MIT
"""Records the sha256 of the default wheels' images and libraries, and what each kernel takes (--write); or compares."""

from __future__ import annotations

import argparse

from kernelwright_toolchain.building import Options, build, recorded
from kernelwright_toolchain.commands import sass
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.targets import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--write", action="store_true", help="record; without it: compare, as ./kw build does")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="compilers at a time, for what is not in the cache")


def run(arguments: argparse.Namespace) -> int:
    table = load()
    arguments.all = True  # of every code, also those of the other wheels
    sass.run(arguments)  # a build with other registers than are recorded is refused
    released = [target.name for target in table.targets.values() if target.release]
    made = {
        name: recorded.of_wheel(build(Options(target=name, provider="pip", jobs=arguments.jobs), table).wheel)
        for name in released
    }
    if arguments.write:
        changed = recorded.write(made)
        print("\n".join(f"{path}: written" for path in changed) or "what is recorded is what the default wheels have")
        return 0
    lines = [
        f"{name}: {line}" for name, found in made.items() for line in recorded.differences(project().root, name, found)
    ]
    if lines:
        raise GateError("\n".join(["the default wheels are not what is recorded:", *lines, recorded.ACCEPT]))
    print(f"the recorded bytes: {', '.join(released)}")
    return 0
