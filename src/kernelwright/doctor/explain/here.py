# SPDX-License-Identifier: MIT
"""`explain --here`: the log, this machine's facts and an x-ray of the file that the log names, as one paste.

The first line is the root cause, the second one command with this machine's values; what both rest on is folded below.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from kernelwright import _environment
from kernelwright.doctor._rank import causes_of
from kernelwright.doctor._told import afterwards
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.explain._match import Explanation, explain
from kernelwright.doctor.machine import python
from kernelwright.doctor.machine._machine import QUICK, Machine
from kernelwright.doctor.machine._probes import Probes
from kernelwright.doctor.report.areas import areas
from kernelwright.doctor.report.facts import gather
from kernelwright.doctor.report.redact import redacted
from kernelwright.doctor.report.text import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernelwright.doctor.explain._match import Answer

_FILE = re.compile(r"(/(?:[\w.+@~-]+/)+[\w.+-]+\.so(?:\.\d+)*)")
_MOST_FILE = 600 << 20  # bytes of a library that is looked into here: what is larger takes seconds


def _root(found: Explanation, told: dict[str, Any]) -> dict[str, Any] | None:
    """The cause at the head: what a check found that explains the log's, else the log's, else what fails here."""
    own = [one for one in told["findings"] if not one["explained_by"]]
    if not found.answers:
        return next((one for one in own if one["grade"] == "fails"), None)
    first = found.answers[0]
    known = first.cause.code in all_causes()
    reasons = causes_of(first.cause.code) if known else ()
    deeper = next((one for one in told["findings"] if one["code"] in reasons), None)
    if deeper is not None:
        top = deeper["explained_by"] or deeper["code"]
        return next(one for one in told["findings"] if one["code"] == top)
    return _as_data(first)


def _as_data(answer: Answer) -> dict[str, Any]:
    return {
        "code": answer.cause.code,
        "title": answer.cause.title,
        "evidence": "",
        "why": answer.cause.why,
        "fix": answer.fix,
        "then": answer.then,
        "confidence": answer.confidence.value,
    }


def _looked_into(found: Explanation, machine: Machine) -> dict[str, Any] | None:
    """What x-ray says of the library that the log's telling lines name, where it is here."""
    from kernelwright.doctor.xray import facts as xray
    from kernelwright.doctor.xray._view import Damaged

    lines = [line.text for answer in found.answers for line in answer.lines]
    for name in dict.fromkeys(_FILE.findall("\n".join(lines))):
        place = Path(name)
        try:
            if place.is_file() and place.stat().st_size <= _MOST_FILE:
                return xray.examine(place, machine, [])
        except (OSError, Damaged):
            continue
    return None


def _waited(told: dict[str, Any]) -> dict[str, Any]:
    """Operators that gave no answer in the short time that is waited here are not run, and no failure."""
    error = told.get("operators_on_gpus", {}).get("error", "")
    return told | {"operators_on_gpus": {"untried": error}} if error.startswith("no answer within") else told


def gathered(log: str, machine: Machine) -> dict[str, Any]:
    """All of it as data, without what names a person or a machine."""
    found = explain(log, machine)
    told = _waited(gather(machine))
    data = {
        "root": _root(found, told),
        "silence": found.silence,
        "answers": [
            _as_data(one) | {"lines": [[line.number, line.text] for line in one.lines]} for one in found.answers
        ],
        "areas": list(map(list, areas(told))),
        "facts": list(map(list, facts(told))),
        "findings": told["findings"],
        "gpus": told.get("gpus"),
        "xray": _looked_into(found, machine),
    }
    cleaned: dict[str, Any] = redacted(data)
    if cleaned["root"]:  # a command has to run as it stands: a shell knows the home and the user by other names
        cleaned["root"]["fix"] = cleaned["root"]["fix"].replace("<home>", "$HOME").replace("<user>", "$USER")
    return cleaned


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _code(text: str) -> str:
    """As code, in a fence of backticks that is longer than any in it."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def _head(told: dict[str, Any]) -> Iterator[str]:
    root = told["root"]
    if root is None:
        yield f"**no known cause**: {told['silence']}"
        return
    sure = f" ({root['confidence']} confidence)" if root.get("confidence") else ""
    yield f"**{root['code']}: {root['title']}**{sure}"
    yield f"fix: {_code(root['fix'])}"
    yield ""
    yield root["why"]
    yield from [f"Then: {afterwards(root['then'])}"] if root["then"] else []
    yield from [f"Found on this machine: {root['evidence']}"] if root["evidence"] else []


def _folded(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield ""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"


def _shown(told: dict[str, Any]) -> Iterator[str]:
    for answer in told["answers"]:
        yield f"* {answer['code']} {_cell(answer['title'])} ({answer['confidence']}); fix: {_code(answer['fix'])}"
        for number, text in answer["lines"]:
            yield f"  * line {number}: {_code(text)}"


def _xray(told: dict[str, Any]) -> Iterator[str]:
    from kernelwright.doctor.xray.text import outcome_of

    looked = told["xray"]
    yield f"{_cell(looked['path'])}: code for {' '.join(row['code'] for row in looked['code']) or 'no GPU'}"
    for verdict in looked["verdicts"]:
        yield f"* {verdict['place']}: {outcome_of(verdict)}"
        for part in verdict["parts"]:
            yield from (
                f"  * {one['code']} {_cell(one['title'])}: {_cell(one['evidence'])}" for one in part["findings"]
            )


def _table(told: dict[str, Any]) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    for state, area, words in told["areas"]:
        yield f"| {area} | {_cell(f'{state}: {words}' if state != '-' else words)} |"
    for word, words in told["facts"]:
        yield f"| {word} | {_cell(words)} |"


def markdown(told: dict[str, Any]) -> Iterator[str]:
    """The paste, ready for an issue."""
    yield from _head(told)
    if told["answers"]:
        yield from _folded("What the log shows", _shown(told))
    if told["xray"]:
        yield from _folded("The file it names", _xray(told))
    if told["findings"]:
        found = (f"* {one['code']} {_cell(one['title'])}: {_cell(one['evidence'])}" for one in told["findings"])
        yield from _folded("What was found on this machine", found)
    yield from _folded("This machine", _table(told))


def print_here(log: str, *, file: TextIO | None = None) -> bool:
    """Whether a cause was named."""
    probes = Probes(QUICK)
    machine = Machine(_environment.everything(), probe=probes)
    try:
        probes.start("driver")
        probes.start("operators")
        if python.torch(machine) is not None:
            probes.start("torch")
        told = gathered(log, machine)
    finally:
        probes.close()
    for line in markdown(told):
        print(line, file=file or sys.stdout)
    return told["root"] is not None
