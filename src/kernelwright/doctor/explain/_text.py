# SPDX-License-Identifier: MIT
"""A log that signs are searched in: only where the words stand that a match needs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from functools import cached_property
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from kernelwright.doctor.explain._lines import paragraphs_of
from kernelwright.doctor.explain._literals import crosses_lines, words_of
from kernelwright.doctor.explain._prose import is_letter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kernelwright.doctor._cause import Sign
    from kernelwright.doctor.explain._lines import Line

MOST_MATCHES = 50  # of one sign: a thousand lines that say the same make nobody surer
_AROUND = 4  # lines before and behind the one with the word that a match may take in, where it crosses lines at all
_TOKEN = re.compile(r"[a-z0-9_]+")


class _Words:
    """In which entries of a log each word stands, also as a part of a longer one."""

    def __init__(self, texts: Sequence[str]) -> None:
        places: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            for token in set(_TOKEN.findall(text)):
                places[token].append(number)
        self._tokens, self._places = list(places), list(places.values())
        self._joined = "\n".join(self._tokens)
        self._starts = [0, *accumulate(len(token) + 1 for token in self._tokens)]
        self._known: dict[str, frozenset[int]] = {}

    def entries(self, word: str) -> frozenset[int]:
        if word not in self._known:
            self._known[word] = frozenset(self._search(word))
        return self._known[word]

    def _search(self, word: str) -> Iterator[int]:
        at = self._joined.find(word)
        while at >= 0:
            token = bisect_right(self._starts, at) - 1
            yield from self._places[token]
            at = self._joined.find(word, self._starts[token + 1])


class Text:
    """A log to be searched as one string, which takes a quarter of the time that its lines take one by one.

    A sign matches across a line's end only where it says so; sentences that were broken stand once more behind, whole.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self.letter = is_letter(lines)
        whole = [[line] for line in lines] + paragraphs_of(list(lines))
        self._entries = [(" ".join(line.bare for line in part), part) for part in whole]
        self._starts = [0, *accumulate(len(text) + 1 for text, _ in self._entries)]

    @cached_property
    def text(self) -> str:
        return "\n".join(text for text, _ in self._entries)

    @cached_property
    def _words(self) -> _Words:
        return _Words([text for text, _ in self._entries])

    def _candidates(self, sign: Sign, *, crosses: bool) -> Iterable[int] | None:
        """The entries in which a match may lie, or begin near; None where that is all of them."""
        sets = [[self._words.entries(word) for word in words] for words in words_of(sign.small)]
        if not sets:
            return None
        sets.sort(key=lambda several: sum(map(len, several)))
        found = frozenset().union(*sets[0])
        for several in sets[1:] if not crosses else ():  # within a line all of them stand
            if not found:
                break
            found = frozenset().union(*(found & one for one in several))
        return sorted(found)

    def _spans(self, sign: Sign) -> Iterator[tuple[int, int]]:
        """The parts of the text in which a sign may match: whole lines, in order."""
        crosses = crosses_lines(sign.small)
        candidates = self._candidates(sign, crosses=crosses)
        if candidates is None:
            yield 0, len(self.text)
            return
        near = _AROUND if crosses else 0
        begin = end = -1
        for entry in candidates:
            first, last = max(0, entry - near), min(len(self._entries), entry + near + 1)
            if first > end:
                if end >= 0:
                    yield self._starts[begin], self._starts[end] - 1
                begin = first
            end = last
        if end >= 0:
            yield self._starts[begin], self._starts[end] - 1

    def _matches(self, sign: Sign) -> Iterator[tuple[int, int]]:
        """Where a sign matches. Each part is searched by itself: what stands beside it is another line."""
        for begin, end in self._spans(sign):
            for match in sign.pattern.finditer(self.text[begin:end]):
                yield begin + match.start(), begin + match.end()

    def places(self, sign: Sign) -> Iterator[tuple[str, Sequence[Line], str]]:
        """Where a sign is: the text and the lines it stands in, and its own words."""
        for begin, end in islice(self._matches(sign), MOST_MATCHES):
            first = bisect_right(self._starts, begin) - 1
            last = bisect_right(self._starts, max(begin, end - 1)) - 1
            entries = self._entries[first : last + 1]
            words = self.text[begin:end]
            yield "\n".join(text for text, _ in entries), [line for _, part in entries for line in part], words

    def has(self, signs: Iterable[Sign]) -> bool:
        return any(next(self._matches(sign), None) is not None for sign in signs)
