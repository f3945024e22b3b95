# SPDX-License-Identifier: MIT
"""The command `doctor`, also without a verb: gathers, prints, and tells by its exit code where the cause lies."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from kernelwright import _environment
from kernelwright.doctor._cause import Area
from kernelwright.doctor._check import Grade
from kernelwright.doctor.html._write import pages_of, write
from kernelwright.doctor.html.report import report
from kernelwright.doctor.machine import python
from kernelwright.doctor.machine._machine import QUICK, THOROUGH, Machine
from kernelwright.doctor.machine._probes import Probes
from kernelwright.doctor.report.facts import gather
from kernelwright.doctor.report.redact import redacted
from kernelwright.doctor.report.text import lines

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = """usage: python -m kernelwright [doctor] [--json] [--redact] [--self | --machine] [--torch]
       [--html FILE]

Says what this installation and this machine are, runs each operator once on the CPU and on one GPU of each kind, and
names what is wrong with its fix.
--self leaves the machine out: the files of this installation and its operators alone decide.
--machine leaves this installation out, and looks at the machine alone.
--torch waits for the import of torch, and for a driver that has to compile the operators for its GPU; without it
neither is waited for where it takes its time.
--html writes the report as a page to FILE too: one file, nothing in it is fetched.
Exit code 0: all is well. 1: an operator fails. 2: the command line is wrong. From 10 on, by where the first cause lies:
{areas}."""
FIRST_AREA = 10
OPTIONS = {"--json", "--redact", "--self", "--machine", "--torch"}


def _area_code(area: str) -> int:
    return FIRST_AREA + [each.value for each in Area].index(area)


def exit_code(told: dict[str, Any]) -> int:
    """Of what is told first: of the cause, where that only warns and what it leads to fails."""
    failing = [found for found in told["findings"] if found["grade"] == Grade.FAILS.value]
    if failing:
        areas = {found["code"]: found["area"] for found in told["findings"]}
        return _area_code(areas[failing[0]["explained_by"] or failing[0]["code"]])
    return 0 if told["success"] else 1


def usage() -> str:
    return USAGE.format(areas=", ".join(f"{_area_code(area.value)} {area.value}" for area in Area))


def _look(*, only_self: bool, only_machine: bool, patient: bool) -> dict[str, Any]:
    """The report as data. What takes time starts first and runs beside the rest."""
    probes = Probes(THOROUGH if patient else QUICK)
    machine = Machine(_environment.everything(), probe=probes)
    try:
        if not only_self:
            if not only_machine:
                probes.start("operators")
            probes.start("driver")
            if python.torch(machine) is not None:
                probes.start("torch")
        return gather(machine, only_self=only_self, only_machine=only_machine)
    finally:
        probes.close()


def main(arguments: Sequence[str]) -> int:
    given, pages = pages_of(arguments)
    options = set(given)
    if options & {"-h", "--help"}:
        print(usage())
        return 0
    if options - OPTIONS or pages is None:
        unknown = min(options - OPTIONS, default="--html without a file")
        print(f"doctor does not know {unknown}\n\n{usage()}", file=sys.stderr)
        return 2
    if options >= {"--self", "--machine"}:
        print(f"--self and --machine leave nothing to look at\n\n{usage()}", file=sys.stderr)
        return 2
    told = _look(only_self="--self" in options, only_machine="--machine" in options, patient="--torch" in options)
    if "--redact" in options:
        told = redacted(told)
    # First, since whoever reads what is printed may go away after a line.
    written = [write(page, report(told)) for page in pages]
    if "--json" in options:
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        for line in lines(told):
            print(line, flush=True)
    return exit_code(told) if all(written) else 2
