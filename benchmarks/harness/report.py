# SPDX-License-Identifier: MIT
"""The table in the terminal: one line a case, printed as soon as it is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.bench.harness.contestants import COMPILE, COPY, EAGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.bench.harness.measure import Result

WIDTH = 44


def head(op: str) -> str:
    return f"\n{op:{WIDTH}} {'µs':>10} {'of limit':>9} {'GB/s':>6} {'eager':>7} {'compile':>8}  others, goals missed"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def line(result: Result, missed: Sequence[str]) -> str:
    """How many times as fast as each peer; `MISSED` and the goals, where there are any."""
    case = f"  {result.subject.case}"
    if not result.us:
        return f"{case:{WIDTH}} {'-':>10}  not run: {'; '.join(result.notes)}"
    others = [f"{_times(result.against(n))} {n}" for n in result.peers() if n not in {EAGER, COMPILE}]
    goals = [f"MISSED {', '.join(missed)}"] if missed else []
    speed = result.subject.bytes / result.ours / 1e3
    return (
        f"{case:{WIDTH}} {result.ours:10.2f} {result.share:9.1%} {speed:6.0f} "
        f"{_times(result.against(EAGER)):>7} {_times(result.against(COMPILE)):>8}  {'  '.join([*others, *goals])}"
    ).rstrip()


def summary(results: Sequence[Result], missed: Sequence[Sequence[str]]) -> str:
    run = [result for result in results if result.us]
    best = max((r.subject.bytes / r.us[COPY] / 1e3 for r in run), default=0)
    count = sum(bool(words) for words in missed)
    notes = dict.fromkeys(note for result in run for note in result.notes)
    lines = [f"\n{len(run)} cases, a copy reaches {best:,.0f} GB/s; {count} miss a goal", *notes]
    return "\n".join(lines)
