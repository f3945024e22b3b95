# SPDX-License-Identifier: MIT
"""What is asked of the ways, each figure beside another way's of the same run. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.bench.transformers._report import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kernelwright.bench.transformers._asked import Work
    from kernelwright.bench.transformers._report import Steps

STEPS = {  # what the goals need of each way
    "bf16": ("eager", "prefill", "static", "tune"),
    "bitsandbytes": ("load", "eager", "train"),
    "under": ("load", "eager", "train"),
    "quantizer": ("load", "prefill", "static", "train"),
    "optimize": ("eager", "prefill", "static", "train"),
    "floor": ("static",),
    "fused": ("tune",),
    "liger": ("tune",),
}
_SPEED, _MS, _PEAK = "tokens_per_second", "ms", "peak_bytes"


@dataclass(frozen=True)
class Goal:
    """A way's figure is so many times another's, or more; of a time and of memory, the other's is so many times its."""

    step: str
    which: int | None  # of the batches, lengths or steps that are measured
    key: str
    way: str
    than: str
    times: float

    def name(self, work: Work) -> str:
        """Of the step that has the figure."""
        if self.which is None:
            return self.step
        some: tuple[Any, ...] = {"prefill": work.prefill, "train": work.train, "tune": work.train}.get(
            self.step, work.batches
        )
        size = some[self.which]
        return f"{self.step}-{'x'.join(map(str, size)) if isinstance(size, tuple) else size}"


GOALS = (
    Goal("static", 0, _SPEED, "quantizer", "bf16", 1.35),
    Goal("static", 1, _SPEED, "quantizer", "bf16", 1.2),
    Goal("static", 0, _SPEED, "optimize", "bf16", 1.7),
    Goal("static", 1, _SPEED, "optimize", "bf16", 1.4),
    Goal("static", 0, _SPEED, "optimize", "floor", 0.8),
    Goal("static", 1, _SPEED, "optimize", "floor", 0.8),
    Goal("eager", 0, _SPEED, "optimize", "bf16", 1.5),
    Goal("eager", 0, _SPEED, "optimize", "bitsandbytes", 2.2),
    Goal("eager", 0, _SPEED, "under", "bitsandbytes", 1.25),
    Goal("eager", 1, _SPEED, "under", "bitsandbytes", 1.25),
    *(
        Goal("prefill", which, _MS, way, "bf16", 1 / most)
        for which, most in ((0, 1.1), (1, 1.05))
        for way in ("quantizer", "optimize")
    ),
    *(
        Goal("train", which, _MS, way, "bitsandbytes", times)
        for which, fastest in ((0, 1.4), (1, 1.5))
        for way, times in (("under", 1.0), ("quantizer", 1.0), ("optimize", fastest))
    ),
    Goal("train", 0, _PEAK, "optimize", "bitsandbytes", 1.0),
    Goal("train", 1, _PEAK, "optimize", "bitsandbytes", 1.0),
    Goal("load", None, "first_token_s", "under", "bitsandbytes", 1.0),
    Goal("load", None, "first_token_s", "quantizer", "bitsandbytes", 1.0),
    *(Goal("tune", which, key, "fused", "liger", 1.0) for which in (0, 1) for key in (_SPEED, _PEAK)),
)


def judged(work: Work, ways: Mapping[str, Steps]) -> Iterator[dict[str, Any]]:
    """Of each goal both figures, how many times better the way is, and whether that is enough; None: not measured."""
    for goal in GOALS:
        name = goal.name(work)
        mine, other = (ways.get(way, {}).get(name, {}).get(goal.key) for way in (goal.way, goal.than))
        found = None
        if mine and other:
            found = mine / other if goal.key == _SPEED else other / mine
        yield {
            "way": goal.way, "step": name, "key": goal.key, "found": mine, "than": goal.than, "other": other,
            "times": found, "asked": goal.times, "met": None if found is None else found >= goal.times,
        }  # fmt: skip


_WORDS = {_SPEED: "tokens/s", _MS: "ms", _PEAK: "peak memory, GB", "first_token_s": "first token of a new process, s"}


def table(work: Work, ways: Mapping[str, Steps]) -> str:
    """In Markdown. Times are how many times better the way is than the other."""
    lines = ["| | found | beside | times | asked | |", "|---|---:|---:|---:|---:|---|"]
    for line in judged(work, ways):
        times = "-" if line["times"] is None else f"{line['times']:.2f}"
        met = {None: "not measured", True: "met", False: "NOT MET"}[line["met"]]
        beside = f"{line['than']} {shown(line['other'], line['key'])}"
        words = f"{line['way']}, {line['step']}, {_WORDS[line['key']]}"
        lines.append(
            f"| {words} | {shown(line['found'], line['key'])} | {beside} | {times} | {line['asked']:.2f} | {met} |"
        )
    return "\n".join(lines)
