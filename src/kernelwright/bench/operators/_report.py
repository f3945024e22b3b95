# SPDX-License-Identifier: MIT
"""The table, a line a case, and the one line that is for others to read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.bench.harness.contestants import COPY, OURS
from kernelwright.bench.operators._peers import PEERS, SHOWN
from kernelwright.bench.operators._run import ratios

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kernelwright.bench.operators._run import Run

COLUMN = 22


def shown(name: str) -> str:
    return SHOWN.get(name, name)


def machine(run: Run) -> str:
    """The GPU and its driver, or the CPU and what of it was used."""
    if "driver" in run:
        return f"{run['device']} (driver {run['driver']}, CUDA {run['cuda']})"
    return f"{run['device']} ({run['instructions']}, threads: {run['threads']})"


def versions(run: Run) -> str:
    return f"kernelwright {run['kernelwright']}, torch {run['torch']}, Python {run['python']}"


def heading(run: Run) -> str:
    beside = ", ".join(f"{name} {version}" for name, version in run["peers"].items())
    lines = [f"{versions(run)}, on {machine(run)}", f"beside {beside or 'nobody'}"]
    lines += [f"left out: {name}, {why}" for name, why in run["left out"].items()]
    return "\n".join(lines)


def columns(words: Iterable[str]) -> list[str]:
    """The contestants of these peers, in the order in which they were asked for."""
    return [name for word in words for name in PEERS[word].contestants]


class Table:
    """A line a case, as wide as the longest name."""

    def __init__(self, cases: Iterable[str], names: Sequence[str]) -> None:
        self.names, self.width = names, max([36, *map(len, cases)])

    def head(self) -> str:
        titles = "".join(f"{shown(name):>{COLUMN}}" for name in self.names)
        return f"\n{'microseconds a call (times as long)':{self.width}}{'kernelwright':>14}{titles}".rstrip()

    def line(self, name: str, case: Mapping[str, Any]) -> str:
        times = case["us"]
        if not times:
            return f"{name:{self.width}}{'-':>14}  {'; '.join(case.get('notes', ()))}"
        cells = [f"{times[n]:.4g} ({times[n] / times[OURS]:.2f}x)" if n in times else "-" for n in self.names]
        return f"{name:{self.width}}{times[OURS]:14.4g}" + "".join(f"{cell:>{COLUMN}}" for cell in cells)


def notes(run: Run) -> list[str]:
    """What has no figure, and why."""
    return [
        f"no figure: {note}" if name in note else f"no figure: {name}: {note}"
        for name, case in run["cases"].items()
        if case["us"]
        for note in case.get("notes", ())
    ]


def mean(values: Sequence[float]) -> float:
    """The geometric one: what is twice as fast here and half as fast there is as fast."""
    return math.exp(sum(map(math.log, values)) / len(values))


def share(run: Run) -> str:
    """One line for others: what, on what, beside whom; empty where there is no figure of anybody else."""
    parts = []
    for name, values in ratios(run).items():
        spread = f"{len(values)} cases, {min(values):.2f}x to {max(values):.2f}x"
        parts.append(f"{shown(name)} takes {mean(values):.2f}x as long ({spread})")
    beside = [f"{name} {version}" for name, version in run["peers"].items() if PEERS[name].module != "torch"]
    of = "".join(f", {one}" for one in beside)
    return f"{versions(run)}{of}, on {machine(run)}: {'; '.join(parts)}" if parts else ""


def best(run: Run) -> float:
    """Bytes a nanosecond of the fastest copy: what the machine's memory gives."""
    return max((case["bytes"] / case["us"][COPY] / 1e3 for case in run["cases"].values() if case["us"]), default=0.0)
