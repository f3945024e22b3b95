# SPDX-License-Identifier: MIT
"""The command `xray`: looks into a wheel, a library or a directory, and says where it will run."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import _environment
from kernelwright.doctor._check import Grade
from kernelwright.doctor.html._write import pages_of, write
from kernelwright.doctor.html.xray import xray
from kernelwright.doctor.machine._machine import Machine
from kernelwright.doctor.xray._asked import Asked as Question
from kernelwright.doctor.xray._place import UnknownTarget
from kernelwright.doctor.xray._view import Damaged
from kernelwright.doctor.xray.facts import examine, unreadable
from kernelwright.doctor.xray.table import table
from kernelwright.doctor.xray.text import lines
from kernelwright.errors import PackageIncomplete

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

USAGE = """usage: python -m kernelwright xray [--gpu NAME] [--driver RELEASE] [--jetpack N] [--torch RELEASE]
       [--for TARGET] [--all] [--json] [--html FILE] [--kernels] WHEEL|FILE.so|DIRECTORY

The first line says whether it will run: yes, no, or which of its files; then which GPUs get what. Nothing of it is run
or installed. Without options the question is this machine.
--gpu asks about a GPU by its name (h100, rtx4090, orin, jetpack6) or capability (9.0); several too: h100,t4.
--driver (535, or a CUDA level such as 11.8), --jetpack (5, 6, 7) and --torch (2.9) say what is there with it.
--for asks about a target of this wheel's table too, by its name.
--table prints one row of Markdown for each of several files, which then follow it.
--all shows everything: each file, its code, what its libraries need, where its search paths lead.
--html writes what is told as a page to FILE too: one file, nothing in it is fetched.
--kernels lists the kernels' names too; pip install 'kernelwright[xray]' brings what unpacks them all.
Exit code 0: it runs wherever it was judged (GPU code is not, where there is no GPU). 1: not everywhere, or not all of
it could be read. 2: nothing in it can be judged: it is damaged (KW-112), something else (KW-120), or not there."""


class _WrongUse(ValueError):
    """The command line cannot be understood."""


@dataclass
class _Asked:
    paths: list[Path] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)
    options: set[str] = field(default_factory=set)
    pages: list[Path] = field(default_factory=list)


def _parse(arguments: Sequence[str]) -> _Asked:
    given, pages = pages_of(arguments)
    if pages is None:
        raise _WrongUse("--html needs a file")
    asked, left = _Asked(pages=pages), iter(given)
    for argument in left:
        option, has_value, value = argument.partition("=")
        if option == "--for":
            asked.targets.append(value if has_value else _next(left, option))
        elif option in {"--gpu", "--driver", "--jetpack", "--torch"}:
            asked.values.setdefault(option, []).append(value if has_value else _next(left, option))
        elif argument in {"--json", "--kernels", "--all", "--table", "-h", "--help"}:
            asked.options.add(argument)
        elif argument.startswith("-"):
            raise _WrongUse(f"xray does not know {argument}")
        elif not argument:  # a variable that is not set; as a path it would be this directory
            raise _WrongUse("xray was given an empty name in place of a file or directory")
        else:
            asked.paths.append(Path(argument))
    several = "--table" in asked.options and asked.paths
    if len(asked.paths) != 1 and not several and not asked.options & {"-h", "--help"}:
        raise _WrongUse(f"xray looks into one file or directory; {len(asked.paths)} were given")
    return asked


def _question(asked: _Asked) -> Question:
    """Several GPUs may be asked about, with one driver, one JetPack and one torch."""
    twice = next((name for name, several in asked.values.items() if name != "--gpu" and len(several) > 1), None)
    if twice:
        raise _WrongUse(f"{twice} was given twice")
    one = {name: several[0] for name, several in asked.values.items()}
    gpus = tuple(name.strip() for value in asked.values.get("--gpu", ()) for name in value.split(","))
    return Question(gpus, one.get("--driver", ""), one.get("--jetpack", ""), one.get("--torch", ""))


def _next(left: Iterator[str], option: str) -> str:
    value = next(left, None)
    if value is None:
        raise _WrongUse(f"{option} needs a value")
    return value


def _look(asked: _Asked, machine: Machine) -> dict[str, Any]:
    (path,) = asked.paths
    question = _question(asked)
    try:
        return examine(path, machine, asked.targets, kernels="--kernels" in asked.options, asked=question)
    except Damaged as error:
        return unreadable(path, machine, asked.targets, str(error), question)


def _side_by_side(asked: _Asked, machine: Machine) -> int:
    """A file that cannot be read is told and left out."""
    several, code = [], 0
    for path in asked.paths:
        try:
            several.append(examine(path, machine))
        except (OSError, Damaged, PackageIncomplete) as error:
            print(f"xray cannot tell about {path}: {error}", file=sys.stderr)
            code = 2
    for line in table(several):
        print(line)
    return code


def exit_code(told: dict[str, Any]) -> int:
    if any(found["grade"] == Grade.FAILS.value for found in told["findings"]):
        return 2
    bad = any(verdict["outcome"] in {"fails", "partly"} for verdict in told["verdicts"])
    return 1 if bad or told["problems"] else 0


def main(arguments: Sequence[str]) -> int:
    try:
        asked = _parse(arguments)
    except _WrongUse as error:
        print(f"{error}\n\n{USAGE}", file=sys.stderr)
        return 2
    if asked.options & {"-h", "--help"}:
        print(USAGE)
        return 0
    machine = Machine(_environment.everything())
    if "--table" in asked.options:
        return _side_by_side(asked, machine)
    try:
        told = _look(asked, machine)
    except _WrongUse as error:
        print(f"{error}\n\n{USAGE}", file=sys.stderr)
        return 2
    except (OSError, UnknownTarget, PackageIncomplete) as error:
        print(f"xray cannot tell about {asked.paths[0]}: {error}", file=sys.stderr)
        return 2
    # First, since whoever reads what is printed may go away after a line.
    written = [write(page, xray(told)) for page in asked.pages]
    if "--json" in asked.options:
        print(json.dumps(told, indent=2))
    else:
        for line in lines(told, everything=bool({"--all", "--kernels"} & asked.options)):
            print(line)
    return exit_code(told) if all(written) else 2
