# SPDX-License-Identifier: MIT
"""A log as lines that can be searched: without colours, progress bars and what CI systems put in front; once each."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernelwright.doctor.explain._languages import foreign

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of a longer line the ends are searched: a compiler's command is in the way of nothing, and its message is at the end.
HEAD, TAIL = 500, 400
LONGEST_LOG = 200_000_000  # characters: of a longer log the beginning and the end are read
MOST_LINES = 5_000_000  # of a longer log as many of the beginning and the end, about
LONGEST_LINE = 40_000  # characters: of a longer one the ends
MOST_TEXT = 2_000_000  # characters that are searched, which takes some seconds
MOST_ALIKE = 5  # lines that differ by their numbers alone: a build has thousands, and the sixth says nothing new
LONGEST_PARAGRAPH = 8
WRAPPED_AT = 40  # a shorter line was not broken because it was too long

_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TYPOGRAPHY = str.maketrans(
    dict.fromkeys("\u2018\u2019`", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"')
    | dict.fromkeys("\u00a0\u202f", " ")
    | {"\uff1a": ": "}
)
_TIME = r"(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:?\d\d)?"
# What stands in front of a line and says who printed it and when.
_PREFIX = re.compile(
    r"\s?("
    rf"{_TIME}"
    rf"|\[[^\]]*{_TIME}[^\]]*\]"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w@.-]+(\[\d+\])?:"  # the system's journal
    r"|\[\s*\d+\.\d{3,}\]"  # the kernel's
    r"|#\d+ \d+\.\d+|\d+\.\d{1,4}(?=\s{1,4}\S)"  # docker build
    r"|[\w.-]+-\d+\s+\|"  # docker compose
    r"|\[?(rank|host|worker|task)[ -]?\d+\]?:"
    r"|\(\w+ ?[^()]{0,20}pid=\d+\)"
    r"|(DEBUG|INFO|WARNING|WARN|ERROR|FATAL)(?= \d\d-\d\d )|\d\d-\d\d(?= \d\d:)|\[\w+\.py:\d+\]"
    r"|##\[\w+\]|[>\u2502|](?= )"
    r")(?=\s|$)"
)


# What a test runner says of a test that went well or was left out: its name and reason may be full of errors; and the
# line of source that Python prints below a warning.
_NO_FAILURE = re.compile(
    r"\s*warnings\.warn\("
    r"|(\[gw\d+\] )?(\[ *\d+%\] )?(PASSED|SKIPPED|XFAIL)\b|\S+::\S+ (PASSED|SKIPPED|XFAIL)\b"
)


@dataclass(frozen=True)
class Line:
    """One line of the log; `number` counts from 1 in the log as given. `text` is the log's own, but for what would
    steer a terminal; `bare` is what is searched.
    """

    number: int
    text: str
    bare: str
    indent: int


def _shortened(text: str) -> str:
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]} … {text[-TAIL:]}"


def _without_prefix(text: str) -> str:
    for _ in range(6):
        match = _PREFIX.match(text)
        if match is None:
            break
        text = text[match.end() :]
    return text


def _line(number: int, shown: str, text: str) -> Line:
    rest = _without_prefix(text)
    bare = re.sub(r"\s+", " ", rest).strip().lower()
    return Line(number, _shortened(_harmless(shown.strip())), _shortened(bare), len(rest) - len(rest.lstrip()))


def _harmless(text: str) -> str:
    """Characters that turn text around, or are not to be seen, as their numbers."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or (each.isspace() and each not in "\x85\u2028\u2029") else f"\\u{ord(each):04x}"
        for each in text
    )


def _numbered(log: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; of a log that is too long those of its first quarter and its end."""
    most = min(LONGEST_LOG, len(log) * MOST_LINES // (log.count("\n") + 1))
    spans = [(0, len(log))]
    if len(log) > most:
        spans = [(0, most // 4), (len(log) - most * 3 // 4, len(log))]
    for begin, end in spans:
        at, number = begin, 1 + log.count("\n", 0, begin)
        while at < end:
            stop = log.find("\n", at, end)
            stop = end if stop < 0 else stop
            yield number, log[at:stop]
            at, number = stop + 1, number + 1


def _ends(line: str) -> str:
    """Of a very long line what a terminal would show of it, and of that the ends."""
    shown = line.rstrip("\r").rpartition("\r")[2]
    return shown if len(shown) <= LONGEST_LINE else shown[: LONGEST_LINE // 2] + shown[-LONGEST_LINE // 2 :]


_Raw = tuple[int, str, str]  # the line's number, what is shown of it, and what is searched


def _within(raws: list[_Raw]) -> list[Line]:
    """As many of them as may be searched: three quarters from the end, and from the beginning, where causes stand too.

    Of a long log most are never made into lines, which takes longer than to read them.
    """
    behind, room = _that_fit(reversed(raws), MOST_TEXT * 3 // 4)
    before, _ = _that_fit(iter(raws[: len(raws) - len(behind)]), room + MOST_TEXT // 4)
    return before + behind[::-1]


def _that_fit(raws: Iterator[_Raw], room: int) -> tuple[list[Line], int]:
    found: list[Line] = []
    for raw in raws:
        line = _line(*raw)
        if len(line.bare) >= room:
            break
        found.append(line)
        room -= len(line.bare) + 1
    return found, room


def _plain(raw: str) -> str:
    """Without what steers a terminal, and what that would have overwritten; most lines have none of it."""
    if raw.isprintable():
        return raw
    return _CONTROL.sub("", _ESCAPES.sub("", raw).rstrip("\r").rpartition("\r")[2])


def lines_of(log: str) -> list[Line]:
    """The lines worth searching, in order. What a terminal would have overwritten (progress bars) is dropped."""
    found: list[_Raw] = []
    seen: set[str] = set()
    alike: Counter[bytes] = Counter()
    for number, line in _numbered(log):
        raw = line if len(line) <= LONGEST_LINE else _ends(line)
        if raw.count("\ufffd") * 4 > len(raw):  # no text
            continue
        form = raw.encode(errors="surrogatepass").translate(None, b"0123456789")  # ten times as fast as of a string
        alike[form] += 1
        if alike[form] > MOST_ALIKE:
            continue
        shown = _plain(raw)
        text = (shown.replace("`", "'") if shown.isascii() else shown.translate(_TYPOGRAPHY)).rstrip()
        if text.strip() and text not in seen and not _NO_FAILURE.match(text):
            seen.add(text)
            found.append((number, shown, text))
    return _in_english(_within(found))


def _in_english(lines: list[Line]) -> list[Line]:
    words = foreign("\n".join(line.bare for line in lines))
    if not words:
        return lines
    bare = "\n".join(line.bare for line in lines)
    for said, english in words:
        bare = bare.replace(said, english)
    return [
        line if line.bare == each else replace(line, bare=each)
        for line, each in zip(lines, bare.split("\n"), strict=True)
    ]


def _continues(first: Line, before: Line, line: Line) -> bool:
    """Whether a line goes on with the sentence of the one before."""
    if first.bare.startswith(("cmake error", "cmake warning")):  # the message stands indented below
        return line.indent > first.indent and not line.bare.startswith("call stack")
    if before.bare.startswith(("\u00d7", "\u251c", "\u2570", "hint:")) or first.bare.startswith("\u2570"):  # uv, pixi
        return line.indent > before.indent or not line.bare[:1].isalpha()
    wrapped = len(before.bare) >= WRAPPED_AT and before.bare[-1] not in ".;)}"
    return wrapped and line.bare[:1].isalpha() and line.text.strip()[:1].islower()


def paragraphs_of(lines: list[Line]) -> list[list[Line]]:
    """Sentences that were broken over several lines, by CMake, by a mail program, by a narrow terminal."""
    found: list[list[Line]] = []
    current: list[Line] = []
    for line in lines:
        if current and len(current) < LONGEST_PARAGRAPH and _continues(current[0], current[-1], line):
            current.append(line)
            continue
        if len(current) > 1:
            found.append(current)
        current = [line]
    if len(current) > 1:
        found.append(current)
    return found
