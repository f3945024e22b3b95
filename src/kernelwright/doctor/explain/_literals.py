# SPDX-License-Identifier: MIT
"""What a text has to contain for a pattern to match in it: sets of words, of each of which one stands in every match.

Seven hundred patterns are searched for in a log; the words say for most of them that no line can match, and for the
others which lines may. A pattern in a form that is not understood here has no such words, and is searched everywhere.
"""

from __future__ import annotations

import re
from functools import cache

_SHORTEST = 2  # letters: a single one stands in every line
_PIECE = re.compile(r"[a-z0-9_]+")
_QUANTIFIER = re.compile(r"[?*+]\??|\{(\d*)(?:,\d*)?\}\??")
_ZERO_WIDTH = frozenset("bBAZ")

Words = frozenset[str]


class _NotUnderstood(Exception):
    """The pattern is in a form that this reader leaves to the regular expressions."""


def _most_telling(sets: list[Words]) -> Words | None:
    """Of sets that a match needs a word of, the one with the longest words, then the smallest."""
    return max(sets, key=lambda words: (min(map(len, words)), -len(words)), default=None)


def _of_run(run: str) -> list[Words]:
    """Letters that stand beside each other in every match: each word of theirs, the longest of which tells most."""
    return [frozenset({word}) for word in _PIECE.findall(run) if len(word) >= _SHORTEST]


def _of_any(every: list[list[Words]]) -> list[Words]:
    """Of several branches any may match: a word of one of their sets is needed, if each has one."""
    if len(every) == 1:
        return every[0]
    best = [_most_telling(sets) for sets in every]
    return [] if None in best else [frozenset().union(*(words for words in best if words))]


class _Reader:
    """One pattern, read from left to right."""

    def __init__(self, pattern: str) -> None:
        self._text, self._at = pattern, 0

    def whole(self) -> list[list[Words]]:
        """What each of the pattern's branches needs."""
        every = self._branches()
        if self._at < len(self._text):
            raise _NotUnderstood
        return every

    def _branches(self) -> list[list[Words]]:
        every = [self._sequence()]
        while self._at < len(self._text) and self._text[self._at] == "|":
            self._at += 1
            every.append(self._sequence())
        return every

    def _sequence(self) -> list[Words]:
        found: list[Words] = []
        run = ""
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            literal, words = self._item()
            optional, repeated = self._quantified()
            if literal == "":  # of no width: what stands around it touches
                continue
            if literal is not None and not optional:
                run += literal
            if literal is None or optional or repeated:
                found, run = found + _of_run(run), ""
            if literal is None and not optional:
                found += words
        return found + _of_run(run)

    def _quantified(self) -> tuple[bool, bool]:
        """(whether the item may be missing, whether it may stand there again)."""
        match = _QUANTIFIER.match(self._text, self._at)
        if match is None:
            return False, False
        self._at = match.end()
        sign = match[0][0]
        least = int(match[1] or 0) if sign == "{" else sign == "+"
        return not least, True

    def _item(self) -> tuple[str | None, list[Words]]:
        """(the letter it is, "" of no width, None if it is not one letter; the words it needs)."""
        letter = self._text[self._at]
        self._at += 1
        if letter == "(":
            return self._group()
        if letter == "[":
            self._class()
            return None, []
        if letter == "\\":
            return self._escaped(), []
        if letter in "^$":
            return "", []
        if letter in "?*+{":
            raise _NotUnderstood
        return (None if letter == "." else letter), []

    def _escaped(self) -> str | None:
        letter = self._text[self._at]
        self._at += 1
        if letter in _ZERO_WIDTH:
            return ""
        if letter in "xu":
            self._at += 2 if letter == "x" else 4
            return None
        return None if letter.isalnum() else letter

    def _class(self) -> None:
        """Past a class of letters; one of them may be anything."""
        start = self._at
        while self._text[self._at] != "]" or self._at == start or self._text[start : self._at] == "^":
            self._at += 2 if self._text[self._at] == "\\" else 1
        self._at += 1

    def _group(self) -> tuple[str | None, list[Words]]:
        looks = re.compile(r"\?(=|!|<=|<!)").match(self._text, self._at)
        if looks:
            self._at = looks.end()
        elif self._text.startswith("?:", self._at):
            self._at += 2
        elif self._text.startswith("?", self._at):
            raise _NotUnderstood
        words = _of_any(self._branches())
        if not self._text.startswith(")", self._at):
            raise _NotUnderstood
        self._at += 1
        return ("", []) if looks else (None, words)


@cache
def branches_of(pattern: str) -> tuple[tuple[Words, ...], ...]:
    """For each branch of a pattern in lower case the sets of words of each of which one stands in what it matches.

    () where a branch has none, or the pattern is not understood: then a match may lie anywhere.
    """
    try:
        every = _Reader(pattern).whole()
    except (_NotUnderstood, IndexError):
        return ()
    return tuple(tuple(dict.fromkeys(sets)) for sets in every) if all(every) else ()


@cache
def words_of(pattern: str) -> tuple[Words, ...]:
    """Sets of words, of each of which one stands in whatever a pattern in lower case matches; () if none is known."""
    return tuple(dict.fromkeys(_of_any([list(sets) for sets in branches_of(pattern)] or [[]])))


@cache
def crosses_lines(pattern: str) -> bool:
    """Whether a match may go on behind a line's end: by a class of letters that has it, or leaves others out."""
    within = re.sub(r"\[\^[^\]]*\\n[^\]]*\]", "", pattern)
    return re.search(r"\\[nsWD]|\[\^", within) is not None
