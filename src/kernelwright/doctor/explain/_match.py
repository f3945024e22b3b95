# SPDX-License-Identifier: MIT
"""Which causes a log shows, and how surely."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernelwright.doctor._cause import Area, Sign
from kernelwright.doctor._others import others
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.explain._lines import Line, lines_of
from kernelwright.doctor.explain._others import of_other_maker, reason_for_silence
from kernelwright.doctor.explain._prose import by_person, quotes
from kernelwright.doctor.explain._text import Text
from kernelwright.doctor.explain._weight import ended_otherwise, only_warns
from kernelwright.doctor.explain.cures import cure, has_blanks
from kernelwright.doctor.explain.said import Said

if TYPE_CHECKING:
    from kernelwright.doctor._cause import Cause
    from kernelwright.doctor.machine._machine import Machine

ENOUGH = 2  # weight below which a cause is not named: one supporting line alone says nothing
SURE = 3
MOST_LINES = 4


class Confidence(enum.Enum):
    """How much an answer can be relied on."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    """A person quotes the message: what printed it, and after what, is not there to be seen."""


@dataclass(frozen=True)
class Answer:
    """A cause and the lines that show it, the most telling first."""

    cause: Cause
    confidence: Confidence
    lines: tuple[Line, ...]
    fix: str = ""
    """One command, with what the log and the machine say in it."""
    then: str = ""


@dataclass(frozen=True)
class _Hit:
    sign: Sign
    line: Line
    quoted: bool
    """It stands in a person's sentence."""


def _fits(sign: Sign, log: Text) -> bool:
    """Whether the rest of the log is as the sign wants it."""
    return all(log.has((Sign(one),)) for one in sign.beside) and not log.has(map(Sign, sign.apart))


def _hits(cause: Cause, log: Text) -> list[_Hit]:
    """The best sign of each line, except on lines that are about something else."""
    best: dict[int, _Hit] = {}
    for sign in sorted(cause.signs, key=lambda sign: -sign.weight):
        for text, lines, words in log.places(sign) if _fits(sign, log) else ():
            if best.keys() & {line.number for line in lines}:
                continue  # by a stronger sign, or this one is of the line and of its paragraph
            person = by_person(text)
            spoken = log.letter or person
            # In a letter a message may have a line of its own.
            alone = not person and text.startswith(words)
            if any(other.pattern.search(text) for other in cause.unless) or (
                spoken and not alone and not quotes(text, words)
            ):
                continue
            best[lines[0].number] = _Hit(sign, lines[0], spoken)
    return list(best.values())


def _weigh(cause: Cause, log: Text) -> tuple[int, list[_Hit]]:
    hits = _hits(cause, log)
    if not hits or (cause.needs and not log.has(cause.needs)) or log.has(cause.without):
        return 0, []
    # The strongest line counts in full; each further sign adds one. The same sign again says nothing new.
    signs = {hit.sign for hit in hits}
    return max(sign.weight for sign in signs) + min(2, len(signs) - 1), hits


@dataclass(frozen=True)
class Explanation:
    """The causes a log shows, the surest first; with none, `silence` says why."""

    answers: tuple[Answer, ...]
    silence: str = ""


def _with_cure(answer: Answer, log: str, machine: Machine | None) -> Answer:
    """Nobody is sure of an answer whose command cannot be run as it stands."""
    found = cure(answer.cause, Said(log, tuple(line.text for line in answer.lines), machine))
    confidence = answer.confidence
    if confidence is Confidence.HIGH and has_blanks(found.command):
        confidence = Confidence.MEDIUM
    return replace(answer, confidence=confidence, fix=found.command, then=found.then)


def _answer(cause: Cause, hits: list[_Hit]) -> Answer:
    hits = sorted(hits, key=lambda hit: (-hit.sign.weight, hit.line.number))
    confidence = Confidence.HIGH if hits[0].sign.weight >= SURE else Confidence.MEDIUM
    if all(hit.quoted for hit in hits):
        confidence = Confidence.LOW
    return Answer(cause, confidence, tuple(hit.line for hit in hits[:MOST_LINES]))


def explain(log: str, machine: Machine | None = None, *, own_alone: bool = False) -> Explanation:
    """Looks for every cause in the log; `machine`: the one it is of, where that is here; `own_alone`: nothing of other
    packages is imported for it.

    A consequence is not named beside the cause it comes from, nor what only warns where the program ended for another
    reason.
    """
    lines = lines_of(log)
    text = Text(lines)
    other_maker = of_other_maker(text)
    not_ours = {Area.DRIVER, Area.GPU} if other_maker else set()
    every = all_causes() if own_alone else {**all_causes(), **others().causes}
    causes = [cause for cause in every.values() if cause.area not in not_ours]
    weighed = {cause.code: (cause, *_weigh(cause, text)) for cause in causes}
    named = {code for code, (_, weight, _) in weighed.items() if weight >= ENOUGH}
    explained = {code for one in named for code in every[one].explains}
    shown = {hit.line.number for code in named for hit in weighed[code][2]}
    otherwise = ended_otherwise(lines, shown)
    ranked = []
    for cause, weight, hits in weighed.values():
        warns = all(only_warns(hit.line.bare) for hit in hits)
        if cause.code in named - explained and not named.intersection(cause.yields_to) and not (warns and otherwise):
            answer = _answer(cause, hits)
            order = (warns, list(Confidence).index(answer.confidence), -weight, answer.lines[0].number)
            ranked.append((order, answer))
    ranked.sort(key=lambda entry: entry[0])
    answers = tuple(_with_cure(answer, log, machine) for _, answer in ranked)
    silence = "" if answers else reason_for_silence(lines, letter=text.letter, other_maker=other_maker)
    return Explanation(answers, silence)
