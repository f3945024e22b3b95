# SPDX-License-Identifier: MIT
"""Which causes a log shows, and how surely."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.explain._lines import Line, lines_of
from kernelwright.doctor.explain._others import reason_for_silence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernelwright.doctor._cause import Cause, Sign

ENOUGH = 2  # weight below which a cause is not named: one supporting line alone says nothing
SURE = 3
MOST_LINES = 4


class Confidence(enum.Enum):
    """How much an answer can be relied on."""

    HIGH = "high"
    MEDIUM = "medium"


@dataclass(frozen=True)
class Answer:
    """A cause and the lines that show it, the most telling first."""

    cause: Cause
    confidence: Confidence
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class _Hit:
    weight: int
    line: Line


def _any(signs: Iterable[Sign], text: str) -> bool:
    return any(sign.pattern.search(text) for sign in signs)


def _hits(cause: Cause, lines: list[Line]) -> list[_Hit]:
    """The best sign of each line, except on lines that are about something else."""
    found = []
    for line in lines:
        weight = max((s.weight for s in cause.signs if s.pattern.search(line.text)), default=0)
        if weight and not _any(cause.unless, line.text):
            found.append(_Hit(weight, line))
    return found


def _weigh(cause: Cause, lines: list[Line]) -> tuple[int, list[_Hit]]:
    hits = _hits(cause, lines)
    if not hits or (cause.needs and not any(_any(cause.needs, line.text) for line in lines)):
        return 0, []
    # The strongest line counts in full; each further one that is not weaker than a support adds one.
    weights = sorted((hit.weight for hit in hits), reverse=True)
    return weights[0] + min(2, len(weights) - 1), hits


@dataclass(frozen=True)
class Explanation:
    """The causes a log shows, the surest first; with none, `silence` says why."""

    answers: tuple[Answer, ...]
    silence: str = ""


def _answer(cause: Cause, hits: list[_Hit]) -> Answer:
    hits = sorted(hits, key=lambda hit: (-hit.weight, hit.line.number))
    confidence = Confidence.HIGH if hits[0].weight >= SURE else Confidence.MEDIUM
    return Answer(cause, confidence, tuple(hit.line for hit in hits[:MOST_LINES]))


def explain(log: str) -> Explanation:
    """Looks for every cause in the log. A consequence is not named beside the cause it comes from."""
    lines = lines_of(log)
    weighed = {cause.code: (cause, *_weigh(cause, lines)) for cause in all_causes().values()}
    named = {code for code, (_, weight, _) in weighed.items() if weight >= ENOUGH}
    ranked = []
    for cause, weight, hits in weighed.values():
        if cause.code in named and not named.intersection(cause.yields_to):
            answer = _answer(cause, hits)
            ranked.append((answer.confidence is not Confidence.HIGH, -weight, answer.lines[0].number, answer))
    ranked.sort(key=lambda entry: entry[:3])
    answers = tuple(entry[-1] for entry in ranked)
    return Explanation(answers, "" if answers else reason_for_silence(lines))
