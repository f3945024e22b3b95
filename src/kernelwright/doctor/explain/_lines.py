# SPDX-License-Identifier: MIT
"""A log as lines that can be searched: without colours, progress bars, time stamps, and repeated but once."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Of a longer line the ends are searched: a compiler's command is in the way of nothing, and its message is at the end.
HEAD, TAIL = 500, 400
LONGEST_LOG = 8_000_000

_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TYPOGRAPHY = str.maketrans("\u2018\u2019\u201c\u201d`\u00a0", "''\"\"' ")


@dataclass(frozen=True)
class Line:
    """One line of the log; `number` counts from 1 in the log as given."""

    number: int
    text: str


def _shortened(text: str) -> str:
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]} … {text[-TAIL:]}"


def lines_of(log: str) -> list[Line]:
    """The lines worth searching, in order. What a terminal would have overwritten (progress bars) is dropped."""
    found: list[Line] = []
    seen: set[str] = set()
    for number, raw in enumerate(log[-LONGEST_LOG:].split("\n"), 1):
        text = _ESCAPES.sub("", raw).rstrip("\r").rpartition("\r")[2]
        text = _CONTROL.sub("", text.translate(_TYPOGRAPHY)).strip()
        if text and text not in seen:
            seen.add(text)
            found.append(Line(number, _shortened(text)))
    return found
