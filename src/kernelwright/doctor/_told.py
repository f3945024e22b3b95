# SPDX-License-Identifier: MIT
"""A finding with the record of its cause, as the data that every report shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.causes import all_causes

if TYPE_CHECKING:
    from kernelwright.doctor._check import Finding


def as_data(found: Finding, package: str = "") -> dict[str, Any]:
    """`fix` is one command: this machine's own where the check made one, else the record's, with the name of `package`,
    where that is looked at; `then` is prose.
    """
    cause = all_causes()[found.code]
    fix, then = (found.fix, found.then) if found.fix else (cause.fix, cause.then)
    fix = fix.replace("<package>", package) if re.fullmatch(r"\w[\w.-]*", package, re.ASCII) else fix
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
