# SPDX-License-Identifier: MIT
"""The command `causes`: every cause the doctor knows, or those that are named. docs/causes.md is what it prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kernelwright.doctor._cause import Area, Cause
from kernelwright.doctor._check import Grade
from kernelwright.doctor._others import others
from kernelwright.doctor._told import afterwards
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.checks import all_checks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

USAGE = """usage: python -m kernelwright causes [CODE …]

Prints what the doctor knows: all causes as a page of Markdown, or those that are named, such as KW-042; by its code
also one that another package ships.
Exit code 0; 2 where there is no such code."""

_HEAD = """# Causes

Made from the doctor's records by `python -m kernelwright causes`. A code keeps its meaning for ever, and so does its
link: `causes.md#kw-042`. Where it is seen:
**check** by `python -m kernelwright` on the machine (*check, warns*: kernelwright works all the same), **log** by
`python -m kernelwright explain < log`, **x-ray** by `python -m kernelwright xray FILE`."""

_OF_XRAY = ("KW-110", "KW-111", "KW-112", "KW-120")


def _seen(cause: Cause) -> str:
    grades = {one.grade for one in all_checks() if one.code == cause.code}
    words = ["check" if Grade.FAILS in grades else "check, warns"] if grades else []
    words += ["log"] if cause.signs else []
    words += ["x-ray"] if cause.code in _OF_XRAY else []
    return "; ".join(words)


def _cell(text: str) -> str:
    """Markdown reads <word> as a tag and | as a border."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _command(text: str) -> str:
    """As code, which is shown as it stands but for the border; a backtick in it would end it."""
    return f"`` {text} ``".replace("|", "\\|")


def page() -> Iterator[str]:
    """The lines of docs/causes.md."""
    yield from _HEAD.split("\n")
    for area in Area:
        yield ""
        yield f"## {area.value[0].upper()}{area.value[1:]}"
        yield ""
        yield "| code | what is so | why | fix | then, or else | seen |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for cause in all_causes().values():
            if cause.area is area:
                texts = (_cell(cause.title), _cell(cause.why), _command(cause.fix), _cell(cause.then))
                anchor = f'<a id="{cause.code.lower()}"></a>{cause.code}'
                yield f"| {anchor} | {' | '.join(texts)} | {_seen(cause)} |"


def _one(cause: Cause) -> str:
    then = f"  then: {afterwards(cause.then)}\n" if cause.then else ""
    return f"{cause.code}  {cause.title}\n  why: {cause.why}\n  fix: {cause.fix}\n{then}  seen: {_seen(cause)}"


def main(arguments: Sequence[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(USAGE)
        return 0
    known = {**all_causes(), **others().causes}
    for problem in others().problems:
        print(f"left out: {problem}", file=sys.stderr)
    wrong = [code for code in arguments if code.upper() not in known]
    if wrong:
        print(f"there is no cause {wrong[0]!r}; python -m kernelwright causes lists them\n\n{USAGE}", file=sys.stderr)
        return 2
    for line in [_one(known[code.upper()]) for code in arguments] or page():
        print(line)
    return 0
