# SPDX-License-Identifier: MIT
"""The order in which findings of one machine are told: text, page and exit code take it from here.

A cause that explains others stands above them, and they are told in one line each, without commands of their own: two
commands for one fault send a person in circles.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kernelwright.doctor._cause import Area
from kernelwright.doctor._check import Finding, Grade
from kernelwright.doctor.causes import all_causes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Beside `yields_to` of the records: {consequence: causes that explain it on a machine, the first first}.
_BECAUSE = {
    "KW-001": ("KW-035", "KW-073"),
    "KW-003": ("KW-087", "KW-076"),
    "KW-015": ("KW-035", "KW-087", "KW-088", "KW-086"),
    "KW-020": ("KW-033", "KW-087"),
    "KW-021": ("KW-033",),
    "KW-028": ("KW-087",),
    "KW-030": ("KW-033",),
    "KW-031": ("KW-033",),
    "KW-041": ("KW-087",),
    "KW-050": ("KW-033",),
    "KW-052": ("KW-073",),
    "KW-054": ("KW-073",),
    "KW-072": ("KW-073", "KW-070"),
    "KW-076": ("KW-087",),
    "KW-077": ("KW-078",),
    "KW-082": ("KW-081",),
    "KW-084": ("KW-033",),
    "KW-085": ("KW-028",),
    "KW-087": ("KW-033",),
}
# The same where both are about one file or program.
_BECAUSE_OF_THE_SAME = {
    "KW-003": ("KW-041", "KW-050"),
    "KW-050": ("KW-030", "KW-036"),
    "KW-052": ("KW-036",),
    "KW-054": ("KW-030", "KW-036"),
    "KW-083": ("KW-030", "KW-050", "KW-054"),
}


def _subject(found: Finding) -> str:
    """What the evidence is about: it stands in front of what is said of it."""
    return found.evidence.partition(": ")[0].partition(" is of ")[0]


def causes_of(code: str) -> tuple[str, ...]:
    """The codes that explain one, on whatever machine."""
    return (*_BECAUSE.get(code, ()), *all_causes()[code].yields_to)


def _why(found: Finding, others: Iterable[Finding]) -> str:
    """The code of the finding that explains this one, or ""."""
    there = {other.code for other in others if other.code != found.code}
    same = {other.code for other in others if other.code != found.code and _subject(other) == _subject(found)}
    several = [code for code in _BECAUSE_OF_THE_SAME.get(found.code, ()) if code in same]
    return next((code for code in (*several, *causes_of(found.code)) if code in there), "")


def _root(code: str, because: dict[str, str]) -> str:
    """The end of the chain of causes; a circle, which no table should have, ends where it began."""
    seen = {code}
    while because.get(code) and because[code] not in seen:
        code = because[code]
        seen.add(code)
    return code


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """What fails first, and in that the driver before what stands on it; what others explain behind all of those.

    A cause that warns and explains what fails is told with what fails.
    """
    looked = [found for found in findings if found.grade is not Grade.UNKNOWN]
    because = {found.code: _why(found, looked) for found in looked}
    # The same cause may be found in two places, of which one is explained: then neither is.
    for found in looked:
        if not _why(found, looked):
            because[found.code] = ""
    roots = {found.code: _root(found.code, because) for found in looked}
    urgent = {roots[found.code] for found in looked if found.grade is Grade.FAILS}
    areas = list(Area)

    def order(found: Finding) -> tuple[bool, bool, int, bool, str]:
        explained, root = bool(because[found.code]), roots[found.code]
        where = areas.index(all_causes()[root].area)
        return explained, root not in urgent, where, found.grade is not Grade.FAILS, found.code

    told = [replace(found, explained_by=roots[found.code] if because[found.code] else "") for found in looked]
    return sorted(told, key=order)


def unlooked(findings: Iterable[Finding]) -> Iterator[dict[str, object]]:
    """What checks failed with, each text once with the codes that were not looked for because of it."""
    codes: dict[str, list[str]] = {}
    for found in findings:
        if found.grade is Grade.UNKNOWN:
            codes.setdefault(found.evidence, []).append(found.code)
    for error, several in codes.items():
        yield {"error": error, "codes": sorted(set(several))}
