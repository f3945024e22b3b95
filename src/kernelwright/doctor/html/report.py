# SPDX-License-Identifier: MIT
"""The doctor's report as a page: first what is wrong, then what was run, then what the machine is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.doctor.html._page import Markup, cause, page, rows, table, tag
from kernelwright.doctor.operators._all import FAILED, RIGHT, runs
from kernelwright.doctor.report.areas import OK, areas
from kernelwright.doctor.report.text import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

_GIB = 1 << 30


def _gpu(number: int, gpu: dict[str, Any]) -> list[object]:
    own = int(gpu.get("capability", 0))
    memory = f"{gpu['memory'] / _GIB:.0f} GiB" if "memory" in gpu else ""
    return [
        number,
        gpu.get("name"),
        f"{own // 10}.{own % 10}",
        memory,
        tag("td", tag("code", gpu["image"] or "none"), f": {gpu['why']}"),
    ]


_STATES = {OK: "good", "fails": "bad", "warns": "warn"}
_KINDS = {RIGHT: "good", FAILED: "bad"}


def _operator(ran: tuple[str, str, str]) -> list[object]:
    name, state, words = ran
    shown = tag("td", "ok" if state == RIGHT else state, kind=_KINDS[state]) if state in _KINDS else state
    return [tag("td", tag("code", name)), shown, words]


def _causes(findings: list[dict[str, Any]]) -> Iterator[Markup]:
    for found in findings:
        if not found["explained_by"]:
            also = [one for one in findings if one["explained_by"] == found["code"]]
            yield cause(found, [found["evidence"]], [(one["code"], one["title"], one["evidence"]) for one in also])


def _parts(told: dict[str, Any]) -> Iterator[Markup]:
    build = told.get("build", {})
    yield tag("h1", "kernelwright ", build.get("version", ""))
    failed = sum(found["grade"] == "fails" for found in told["findings"])
    failed += sum(state == FAILED for _, state, _ in runs(told))
    result = ("SUCCESS", "good") if told["success"] else (f"FAILED: {failed} of the checks and operators", "bad")
    yield tag("p", tag("span", result[0], kind=f"word {result[1]}", id="result"))
    yield table(
        ["", "area", ""], ([tag("td", state, kind=_STATES.get(state, "")), *rest] for state, *rest in areas(told))
    )
    if told["findings"]:
        yield tag("h2", "What was found")
        yield from _causes(told["findings"])
    for one in told["unlooked"]:
        yield tag("p", f"Not looked for: {', '.join(one['codes'])} ({one['error']}). Please report this.", kind="soft")
    if isinstance(told.get("gpus"), list) and told["gpus"]:
        yield tag("h2", "GPUs and the code each gets")
        gpus = [_gpu(number, gpu) for number, gpu in enumerate(told["gpus"])]
        yield table(["", "GPU", "compute capability", "memory", "code"], gpus)
    yield tag("h2", "One run of each operator against its reference")
    yield table(["operator", "result", ""], map(_operator, runs(told)))
    yield tag("h2", "This installation and this machine")
    yield rows(facts(told))


def report(told: dict[str, Any]) -> str:
    return page("kernelwright: report", _parts(told), told)
