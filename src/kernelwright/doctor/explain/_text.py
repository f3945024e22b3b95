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
from kernelwright.doctor.explain._literals import branches_of, crosses_lines
from kernelwright.doctor.explain._prose import is_letter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kernelwright.doctor._cause import Sign
    from kernelwright.doctor.explain._lines import Line
    from kernelwright.doctor.explain._literals import Words

MOST_MATCHES = 50  # of one sign: a thousand lines that say the same make nobody surer
_AROUND = 4  # lines before and behind the one with the word that a match may take in, where it crosses lines at all
_TOGETHER = 500  # lines in one search: a sign that many have is found in the first of them
_FEW = 20  # lines are searched sooner than looked up by one more word
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

    def _candidates(self, sign: Sign, *, crosses: bool) -> list[int] | None:
        """The entries in which a match may lie, or begin near; None where that is all of them."""
        branches = branches_of(sign.small)
        if not branches:
            return None
        return sorted(frozenset().union(*(self._with_words(words, crosses=crosses) for words in branches)))

    def _of_any(self, several: Words) -> frozenset[int]:
        return frozenset().union(*(self._words.entries(word) for word in several))

    def _with_words(self, words: Sequence[Words], *, crosses: bool) -> frozenset[int]:
        """The entries that have a word of the rarest set; of each set, where a match lies within a line."""
        if crosses:
            return min((self._of_any(several) for several in words), key=len)
        found: frozenset[int] | None = None
        # Long words are rare, and sooner found.
        for several in sorted(words, key=lambda several: -min(map(len, several))):
            found = self._of_any(several) if found is None else found & self._of_any(several)
            if len(found) <= _FEW:
                break
        return found or frozenset()

    def _near(self, candidates: Iterable[int]) -> Iterator[tuple[int, int]]:
        """The parts of the text around some entries: whole lines, in order."""
        begin = end = -1
        for entry in candidates:
            first, last = max(0, entry - _AROUND), min(len(self._entries), entry + _AROUND + 1)
            if first > end:
                if end >= 0:
                    yield self._starts[begin], self._starts[end] - 1
                begin = first
            end = last
        if end >= 0:
            yield self._starts[begin], self._starts[end] - 1

    def _matches(self, sign: Sign) -> Iterator[tuple[int, int]]:
        """Where a sign matches, in order."""
        crosses = crosses_lines(sign.small)
        candidates = self._candidates(sign, crosses=crosses)
        if candidates is None:
            yield from (match.span() for match in sign.pattern.finditer(self.text))
        elif crosses:  # each part by itself: what stands beside it is another line
            for begin, end in self._near(candidates):
                for match in sign.pattern.finditer(self.text[begin:end]):
                    yield begin + match.start(), begin + match.end()
        else:
            for at in range(0, len(candidates), _TOGETHER):
                yield from self._within(sign, candidates[at : at + _TOGETHER])

    def _within(self, sign: Sign, candidates: list[int]) -> Iterator[tuple[int, int]]:
        """Where a sign that keeps to its line matches: in one search of all these lines, which takes less than many."""
        texts = [self._entries[entry][0] for entry in candidates]
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        for match in sign.pattern.finditer("\n".join(texts)):
            which = bisect_right(starts, match.start()) - 1
            moved = self._starts[candidates[which]] - starts[which]
            yield match.start() + moved, match.end() + moved

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
