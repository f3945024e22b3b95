# SPDX-License-Identifier: MIT
"""What a difference in text gives away: a path of a machine, a clock, a compiler, or just other words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

_PATH = re.compile(r"(?<![\w.:/<])/(?:[\w.+@~-][\w.+@~ -]*/)+[\w.+@~-]*")
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_CLOCK = re.compile(
    rf"\b(?:{_MONTH})\w* +\d{{1,2}},? +20\d\d\b|\b20\d\d[-/.]\d\d[-/.]\d\d\b"
    r"|\b[0-2]\d:[0-5]\d:[0-5]\d\b|\b1[5-9]\d{8}\b"
)
_COMPILER = re.compile(r"\b(?:clang version|GCC: |Cuda compilation tools|Compiler Build ID|LLD |NVVM |gcc version).*")
_STRING = re.compile(rb"[\x20-\x7e]{4,}")
SHOWN = 3


def strings(data: bytes) -> set[str]:
    """Runs of printable characters, as `strings` shows them."""
    return {match.decode("ascii") for match in _STRING.findall(data)}


def tells(text: str) -> Iterator[tuple[str, str]]:
    """(kind, the part that tells) of each cause that one text gives away by itself."""
    for kind, form in (("compiler", _COMPILER), ("path", _PATH), ("clock", _CLOCK)):
        if match := form.search(text):
            yield kind, match[0]


def causes(theirs: Iterable[str], ours: Iterable[str]) -> dict[str, tuple[list[str], list[str]]]:
    """kind -> what only theirs and what only ours says; texts that tell nothing are left out."""
    one, other = set(theirs), set(ours)
    found: dict[str, tuple[list[str], list[str]]] = {}
    for side, texts in enumerate((one - other, other - one)):
        for text in sorted(texts):
            for kind, told in tells(text):
                found.setdefault(kind, ([], []))[side].append(told)
    # A text may differ in one of the things that it tells: the others are on both sides.
    return {kind: sides for kind, sides in found.items() if sorted(sides[0]) != sorted(sides[1])}


def phrase(theirs: list[str], ours: list[str]) -> str:
    def side(texts: list[str]) -> str:
        more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
        return ", ".join(repr(text[:120]) for text in texts[:SHOWN]) + more if texts else "nothing like it"

    return f"{side(theirs)} in the wheel, {side(ours)} in the rebuilt one"


def printable(words: str) -> str:
    """What a strange wheel says, unable to move the cursor or to look like a line of ours."""
    lines = ["".join(c if c.isprintable() else repr(c)[1:-1] for c in line) for line in words.split("\n")]
    return "\n".join([lines[0], *(line if line.startswith("    ") else f"    {line}" for line in lines[1:])])


def changed_lines(theirs: str, ours: str) -> Iterator[str]:
    """The differing lines alone, - of the wheel and + of the rebuilt one."""
    for line in difflib.unified_diff(theirs.splitlines(), ours.splitlines(), n=0, lineterm=""):
        if line[:1] in "+-" and line[:3] not in ("---", "+++"):
            yield line
