# SPDX-License-Identifier: MIT
"""A finding with the record of its cause, as the data that every report shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.doctor.causes import all_causes

if TYPE_CHECKING:
    from kernelwright.doctor._check import Finding


def told(found: Finding) -> dict[str, Any]:
    """`fix` is one command: this machine's own where the check made one, else the record's; `then` is prose."""
    cause = all_causes()[found.code]
    fix, then = (found.fix, found.then) if found.fix else (cause.fix, cause.then)
    return {
        "code": found.code,
        "grade": found.grade.value,
        "area": cause.area.value,
        "title": cause.title,
        "evidence": found.evidence,
        "why": cause.why,
        "fix": fix,
        "then": then,
    }
