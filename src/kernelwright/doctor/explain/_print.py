# SPDX-License-Identifier: MIT
"""The command `explain`: reads a log, prints its causes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kernelwright.doctor._others import others
from kernelwright.doctor._told import afterwards
from kernelwright.doctor.explain._match import Answer, Explanation, explain
from kernelwright.doctor.explain.here import print_here

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = 1
MOST_READ = 300_000_000
"""Bytes of one log: what goes on longer may have no end."""
USAGE = """usage: python -m kernelwright explain [--json | --here] [FILE …] < log

Names the cause of a failed build or run from its log: code, confidence, the lines that show it, the fix.
--here takes the log for one of this machine: its facts decide too, and what is printed is Markdown for an issue, the
root cause first, one command second; homes, hosts and users are left out of it.
Exit code 0: a cause was named. 1: none was. 2: the log could not be read."""


def _as_text(found: Explanation) -> str:
    if not found.answers:
        return f"no known cause: {found.silence}"
    return "\n\n".join(_answer_as_text(answer) for answer in found.answers)


def _answer_as_text(answer: Answer) -> str:
    cause = answer.cause
    shown = "\n".join(f"  line {line.number}: {line.text[:300]}" for line in answer.lines)
    head = f"{cause.code}  {cause.title}  (confidence: {answer.confidence.value})"
    then = f"\n  then: {afterwards(answer.then)}" if answer.then else ""
    return f"{head}\n{shown}\n  why: {cause.why}\n  fix: {answer.fix}{then}"


def _as_json(found: Explanation) -> str:
    answers: list[dict[str, Any]] = [
        {
            "code": answer.cause.code,
            "title": answer.cause.title,
            "confidence": answer.confidence.value,
            "lines": [{"number": line.number, "text": line.text} for line in answer.lines],
            "why": answer.cause.why,
            "fix": answer.fix,
            "then": answer.then,
        }
        for answer in found.answers
    ]
    return json.dumps({"schema": SCHEMA, "answers": answers, "silence": found.silence}, indent=2, ensure_ascii=False)


def _begin(file: BinaryIO, name: str) -> bytes:
    content = file.read(MOST_READ + 1)
    if len(content) > MOST_READ:
        print(f"explain read the first {MOST_READ // 1_000_000} MB of {name}", file=sys.stderr)
    return content[:MOST_READ]


def _read(files: Sequence[str]) -> str:
    """All logs one after the other; undecodable bytes are kept out of the way, not fatal."""
    if not files and sys.stdin is None:
        raise OSError("there is no standard input")
    raw = [] if files else [_begin(sys.stdin.buffer, "the log")]
    for file in files:
        with Path(file).open("rb") as opened:
            raw.append(_begin(opened, file))
    return "\n".join(part.decode("utf-8", errors="replace") for part in raw)


def main(arguments: Sequence[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(USAGE)
        return 0
    options = [argument for argument in arguments if argument.startswith("-")]
    if set(options) - {"--json", "--here"} or len(set(options)) > 1:
        unknown = next((one for one in options if one not in {"--json", "--here"}), "--json with --here")
        print(f"explain does not know {unknown}\n\n{USAGE}", file=sys.stderr)
        return 2
    try:
        log = _read([argument for argument in arguments if not argument.startswith("-")])
    except OSError as error:
        print(f"explain cannot read the log: {error}", file=sys.stderr)
        return 2
    for problem in others().problems:
        print(f"left out: {problem}", file=sys.stderr)
    if "--here" in options:
        return 0 if print_here(log) else 1
    found = explain(log)
    print(_as_json(found) if options else _as_text(found))
    return 0 if found.answers else 1
