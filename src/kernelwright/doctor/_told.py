# SPDX-License-Identifier: MIT
"""A finding with the record of its cause, as the data that every report shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.causes import all_causes

if TYPE_CHECKING:
    from kernelwright.doctor._check import Finding


def afterwards(then: str) -> str:
    """What stands behind "then:": without the same word once more."""
    rest = then.removeprefix("Then ")
    return rest[:1].upper() + rest[1:]


def as_data(found: Finding, package: str = "") -> dict[str, Any]:
    """`fix` is one command: this machine's own where the check made one, else the record's; `then` is prose.

    Both have the name of `package`, where one is looked at.
    """
    cause = all_causes()[found.code]
    fix, then = (found.fix, found.then) if found.fix else (cause.fix, cause.then)
    if re.fullmatch(r"\w[\w.-]*", package, re.ASCII):
        fix, then = (text.replace("<package>", package) for text in (fix, then))
    return {
        "code": found.code,
        "grade": found.grade.value,
        "area": cause.area.value,
        "title": cause.title,
        "evidence": found.evidence,
        "why": cause.why,
        "fix": fix,
        "then": then,
        "explained_by": found.explained_by or None,
    }
