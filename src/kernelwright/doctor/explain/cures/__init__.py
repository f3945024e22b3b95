# SPDX-License-Identifier: MIT
"""The fix of an answer as a function of the log and the machine. Whatever function of these files is marked with the
codes of causes makes theirs; nothing else lists them. Where none has an answer, the record's command stands.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.doctor._check import Grade
from kernelwright.doctor._others import others
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.checks import all_checks, examine
from kernelwright.doctor.explain.cures import _families as families
from kernelwright.doctor.explain.cures import _ways as ways
from kernelwright.doctor.explain.cures._cure import Cure, Marked
from kernelwright.doctor.explain.cures._next import after
from kernelwright.doctor.explain.cures._prompt import in_cmd
from kernelwright.doctor.remedies.packages import pip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernelwright.doctor._cause import Cause
    from kernelwright.doctor.explain.cures._cure import Make
    from kernelwright.doctor.explain.said import Said
    from kernelwright.doctor.machine._machine import Machine

_BLANK = re.compile(r"<[a-zA-Z][^<>]*>")


@cache
def makers() -> dict[str, Make]:
    """The function of each cause that has one."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return _marked(importlib.import_module(f"{__name__}.{name}") for name in names)


def _marked(modules: Iterable[Any]) -> dict[str, Make]:
    marked = {value for module in modules for value in vars(module).values() if isinstance(value, Marked)}
    return {code: one.make for one in marked for code in one.codes}


def _maker(code: str) -> Make | None:
    """Of another package's cause its own, which is looked for where such a cause was named alone."""
    return makers().get(code) if code in all_causes() else _marked(others().modules).get(code)


def has_blanks(command: str) -> bool:
    """Whether something has to be filled in before it can be run."""
    return bool(_BLANK.search(command))


def _of_machine(cause: Cause, machine: Machine) -> Cure | None:
    """What a check of the machine that the log is of has found: it knows more than any log."""
    looks = [one for one in all_checks() if one.code == cause.code and not one.look.__module__.endswith(".extensions")]
    for found in examine(machine, looks):
        if found.grade is not Grade.UNKNOWN and found.fix:
            return Cure(found.fix, found.then)
    return None


# A build that stops, for whatever reason, is not needed where there are wheels.
_STOPS = frozenset({"KW-040", "KW-041", "KW-042", "KW-043", "KW-044", "KW-046", "KW-049", "KW-060"})


_SPCONV = frozenset({"KW-024", "KW-093", "KW-096", "KW-100", "KW-020", "KW-049"})


def _by_wheel(cause: Cause, said: Said) -> Cure | None:
    if cause.code in _SPCONV and said.machine is None and families.is_spconv(said):
        return Cure(families.spconv(said), "Its wheels are called by CUDA's release, which has to be torch's.")
    if cause.code not in _STOPS or said.machine is not None:
        return None
    words = families.wheel(said, said.package) if said.package else None
    if words is None:
        return None
    then = "That is its wheel for the torch that is here, so that nothing is compiled. A nightly torch has none."
    return Cure(words[1] + ways.pip(said, words[0]), then)


def cure(cause: Cause, said: Said) -> Cure:
    """One command for this log, and what comes after it."""
    found = _of_machine(cause, said.machine) if said.machine is not None else None
    make = _maker(cause.code)
    if found is None and make is not None:
        found = after(cause.code, said) or _by_wheel(cause, said) or make(said)
    if found is None or not found.command:
        found = Cure(cause.fix, cause.then)
    command = found.command
    for mark, known in (("<package>", said.package), ("<library>", said.library), ("<program.py>", said.script)):
        command = command.replace(mark, known) if known else command
    if said.machine is not None:
        own = pip(said.machine, "").rstrip()
        command = re.sub(r"\bpython3? -m pip\b", lambda _: own, command)
    if said.machine is None and said.notebook and ways.FINDS in command:
        command = command.replace(ways.FINDS, ways.FINDS_OF_NOTEBOOK)
    if said.machine is None and said.windows and not said.wsl:
        command = in_cmd(command)
    return Cure(command, found.then or (cause.then if found.command == cause.fix else ""))
