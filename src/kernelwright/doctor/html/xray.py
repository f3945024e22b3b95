# SPDX-License-Identifier: MIT
"""What is in a CUDA wheel, as a page: where it runs and why not, then the code for each GPU, then file by file."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.html._page import Markup, cause, page, rows, table, tag
from kernelwright.doctor.xray.text import amount, facts_of, gets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KINDS = {"runs": "good", "compiles": "good", "partly": "warn", "fails": "bad", "unknown": "warn"}
_PACKED = {"none": "not", "unknown": "in an unknown way", "lz4": "by LZ4", "zstd": "by Zstandard"}


def _causes(findings: Iterable[tuple[dict[str, Any], str]]) -> Iterator[Markup]:
    """Each cause once for each grade, with everything that shows it."""
    by_code: dict[tuple[str, str], list[tuple[dict[str, Any], str]]] = defaultdict(list)
    for found, name in findings:
        by_code[found["grade"], found["code"]].append((found, name))
    for _, every in sorted(by_code.items()):
        where: dict[str, list[str]] = defaultdict(list)
        for found, name in every:
            where[found["evidence"]].append(name)
        seen = [f"{text} ({', '.join(names)})" if any(names) else text for text, names in where.items()]
        yield cause(every[0][0], seen)


def _verdict(verdict: dict[str, Any]) -> Markup:
    kind = _KINDS[verdict["outcome"]]
    answer = verdict["answer"]
    said = (tag("span", answer["word"], kind="word"), f": {answer['text']}")
    head = tag("h3", tag("span", verdict["place"], kind="place"), ": ", *said)
    codes = sorted(
        {found["code"] for part in verdict["parts"] for found in part["findings"] if found["grade"] == "fails"}
    )
    why = [tag("p", "because of ", ", ".join(codes))] if codes else []
    return tag("section", head, *why, kind=f"card {kind} verdict")


def _why(verdict: dict[str, Any]) -> Iterator[Markup]:
    """What each GPU gets of each file, and what was found."""
    yield tag("h2", "In detail: ", verdict["place"])
    lines = [
        [part["name"], one["capability"], one["name"], gets(one)] for part in verdict["parts"] for one in part["gpus"]
    ]
    if lines:
        shown = table(["file", "compute capability", "GPU", ""], lines)
        yield tag("details", tag("summary", f"what {len(lines)} GPUs get of the files"), shown)
    yield from _causes((found, part["name"]) for part in verdict["parts"] for found in part["findings"])


def _code(code: list[dict[str, Any]]) -> Markup:
    most = max((row["bytes"] for row in code), default=1) or 1
    lines = []
    for row in code:
        packed = ", ".join(f"{count} {_PACKED.get(name, name)}" for name, count in sorted(row["packing"].items()))
        name = row["code"] + (" (relocatable, not loaded at run time)" if row["relinked"] else "")
        bar = tag("td", tag("i", style=f"width: {100 * row['bytes'] / most:.1f}%"), kind="bar")
        numbers = (amount(row["bytes"]), amount(row["unpacked"]), row["images"])
        lines.append([tag("td", tag("code", name)), bar, *(tag("td", one, kind="number") for one in numbers), packed])
    return table(["code", tag("th", kind="bar"), "in the file", "unpacked", "images", "packed"], lines)


def _file(file: dict[str, Any]) -> Markup:
    (_, head), *pairs = facts_of(file)
    return tag("details", tag("summary", head), rows(pairs), kind="file")


def _parts(told: dict[str, Any]) -> Iterator[Markup]:
    wheel = told["wheel"]
    yield tag("h1", told["path"].rpartition("/")[2])
    tags = f", tag {' '.join(wheel['tags'])}" if wheel else ""
    yield tag("p", f"{amount(told['size'])}, a {told['kind']}{tags}", kind="soft")
    yield from map(_verdict, told["verdicts"])
    if told["gpus"]:
        yield tag("h2", "What each GPU gets")
        yield table(
            ["compute capability", "GPU", ""],
            ([one["capability"], tag("th", one["name"], scope="row"), gets(one)] for one in told["gpus"]),
        )
    yield tag("h2", "Code for GPUs")
    yield _code(told["code"]) if told["code"] else tag("p", "There is none.")
    for verdict in told["verdicts"]:
        yield from _why(verdict)
    if told["findings"]:
        yield tag("h2", "Wherever it is installed")
        yield from _causes((found, "") for found in told["findings"])
    yield tag("h2", "File by file")
    yield from map(_file, told["files"])
    yield from (tag("p", f"problem: {problem}", kind="bad") for problem in told["problems"])
    if told["others"]:
        yield tag("p", f"{told['others']} other files were not looked into.", kind="soft")


def xray(told: dict[str, Any]) -> str:
    return page(f"x-ray: {told['path'].rpartition('/')[2]}", _parts(told), told)
