# SPDX-License-Identifier: MIT
"""What a check is: a function of a machine that finds the evidence of one cause, or nothing."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine


class Seen(NamedTuple):
    """What a look found, and the command that ends it where this machine tells more than the record of the cause."""

    evidence: str
    fix: str
    then: str = ""


Look = Callable[["Machine"], "Seen | str | None"]


class Grade(enum.Enum):
    """What a finding means for kernelwright on this machine."""

    FAILS = "fails"
    """Something that was asked for cannot work."""
    WARNS = "warns"
    """It works, but somebody will stumble over it."""
    UNKNOWN = "unknown"
    """The look itself failed, so that nobody knows."""


@dataclass(frozen=True)
class Check:
    """One look at a machine. `look` returns the evidence in one sentence, alone where the record's command ends it too;
    None where all is well or does not apply.
    """

    code: str
    grade: Grade
    look: Look


@dataclass(frozen=True)
class Finding:
    """A check that found something."""

    code: str
    grade: Grade
    evidence: str
    fix: str = ""
    """A command with this machine's own values; "" where the record's is as good."""
    then: str = ""
    explained_by: str = ""
    """The code of the finding of the same machine that this one comes from; see `_rank`."""


def check(code: str, grade: Grade = Grade.FAILS) -> Callable[[Look], Check]:
    """Makes a check of a function: the module's `CHECKS` are the ones it defines."""

    def made(look: Look) -> Check:
        return Check(code, grade, look)

    return made
