# SPDX-License-Identifier: MIT
"""C and C++ text as tokens: comments gone, strings whole, lines known.

As far as the rules on device sources and the reader of the C ABI need it, and no further.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?(?:\)(?P=fence)"|\Z))
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"?)
  | (?P<number>\.?\d(?:'?[\w.]|[eEpP][+-])*)
  | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])*'?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<newline>\n)
  | (?P<space>[^\S\n]+)
  | (?P<mark>%:%:|%:|::|\#\#|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SKIPPED = ("comment", "space")


@dataclass(frozen=True)
class Token:
    """`kind`: name, number, string (also raw and char), mark, newline."""

    kind: str
    text: str
    line: int


def tokens(source: str) -> Iterator[Token]:
    """Every token in order. A line that ends in a backslash goes on; its tokens keep the line they stand on."""
    text, line_of = _joined(source.replace("\r\n", "\n"))
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "fence":
            kind = "raw"
        if kind in _SKIPPED:
            continue
        kind = "string" if kind in {"raw", "char"} else kind
        word = "#" if match.group() == "%:" else match.group()
        yield Token(kind, word, line_of(match.start()))


def _joined(source: str) -> tuple[str, _Lines]:
    """The text with spliced lines joined, and what tells the line of a place in it."""
    pieces, starts, line = [], [], 1
    length = 0
    for part in re.split(r"(\\[^\S\n]*\n|\n)", source):
        starts.append((length, line))
        if part.endswith("\n"):
            line += 1
        if part == "\n" or not part.endswith("\n"):
            pieces.append(part)
            length += len(part)
    return "".join(pieces), _Lines(starts)


class _Lines:
    def __init__(self, starts: list[tuple[int, int]]) -> None:
        self._starts = starts
        self._at = 0

    def __call__(self, offset: int) -> int:
        """The line of an offset; offsets must not go backwards."""
        while self._at + 1 < len(self._starts) and self._starts[self._at + 1][0] <= offset:
            self._at += 1
        return self._starts[self._at][1]


@dataclass(frozen=True)
class Directive:
    """One preprocessor line: `#` name, and what follows."""

    name: str
    rest: tuple[Token, ...]
    line: int


def split(stream: Iterator[Token]) -> tuple[list[Directive], list[Token]]:
    """The preprocessor's lines, and the code between them."""
    directives: list[Directive] = []
    code: list[Token] = []
    line: list[Token] = []

    def close() -> None:
        if line and line[0].text == "#":
            name = line[1].text if len(line) > 1 else ""
            directives.append(Directive(name, tuple(line[2:]), line[0].line))
        else:
            code.extend(line)
        line.clear()

    for token in stream:
        if token.kind == "newline":
            close()
        else:
            line.append(token)
    close()
    return directives, code
