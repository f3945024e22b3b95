# SPDX-License-Identifier: MIT
"""benchmarks/ops/<family>/goals.toml: which case is held to what, and what a result misses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import ops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernelwright.bench.harness.measure import Result

FAMILIES = Path(__file__).resolve().parents[1] / "ops"
WHERE = ("on", "device", "cases", "bytes", "rows", "cols")


@dataclass(frozen=True)
class Goal:
    where: Mapping[str, Any]
    asks: Mapping[str, float]

    def about(self, result: Result, device: Any) -> bool:
        subject, where = result.subject, self.where
        if where["on"] != device.kind or not fnmatchcase(device.name, where.get("device", "*")):
            return False
        if not re.search(where.get("cases", ""), subject.name):
            return False
        ranges = {key: where[key] for key in ("bytes", "rows", "cols") if key in where}
        return all(least <= getattr(subject, key) <= most for key, (least, most) in ranges.items())

    def missed(self, result: Result) -> list[str]:
        """What is asked and not reached; a peer that did not run asks nothing."""
        said = []
        for what, wanted in self.asks.items():
            if what == "limit" and result.share < wanted:
                said.append(f"limit {wanted:.0%}")
            elif what == "us" and result.ours > wanted:
                said.append(f"{wanted:g} µs")
            elif what not in {"limit", "us"}:
                peers = result.peers()
                name = min(peers, key=peers.__getitem__, default="") if what == "best" else what
                reached = result.against(name)
                if reached is not None and reached < wanted:
                    said.append(f"{wanted:g}x {name}")
        return said


@cache
def read(family: str) -> tuple[Goal, ...]:
    """What the cases of a family are held to; a new family need not have such a file yet."""
    import tomllib

    path = FAMILIES / family / "goals.toml"
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["goal"] if path.is_file() else []
    return tuple(
        Goal({k: v for k, v in row.items() if k in WHERE}, {k: v for k, v in row.items() if k not in WHERE})
        for row in rows
    )


def missed(result: Result, device: Any) -> list[str]:
    """Every goal that this result misses, in a word or two each."""
    family = ops.families()[result.subject.op.name]
    found = [word for goal in read(family) if goal.about(result, device) for word in goal.missed(result)]
    return list(dict.fromkeys(found))
