# SPDX-License-Identifier: MIT
"""A run as data: the machine and versions it is of, and the figures; table, picture and JSON are made from it."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING, Any

from kernelwright import _files
from kernelwright.bench.harness.contestants import COPY, OURS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kernelwright.bench.harness.measure import Result

Run = dict[str, Any]
WHAT = (
    "medians, microseconds a call, everybody in turns in one process, each compared with float64 before; "
    "`copy` moves as many bytes as the call has to"
)
SAME = ("device", "driver", "cuda", "instructions", "threads", "torch", "python", "kernelwright", "peers")
"""What two runs must share before their figures stand beside each other."""


class Apart(ValueError):
    """Two runs of different machines or versions."""


def about(device: Any, peers: Mapping[str, str], absent: Mapping[str, str], words: Sequence[str]) -> Run:
    import torch

    return {
        "what": WHAT,
        **device.facts(),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "kernelwright": _files.version(),
        "peers": dict(peers),
        "left out": dict(absent),
        "command": " ".join(["python -m kernelwright bench", *words]),
        "cases": {},
    }


def entry(result: Result) -> dict[str, Any]:
    """One case; times with as many digits as they repeat."""
    times = {name: float(f"{us:.4g}") for name, us in result.us.items()}
    notes = {"notes": result.notes} if result.notes else {}
    return {"bytes": result.subject.bytes, "us": times, **notes}


def text(run: Run) -> str:
    """JSON with one line a case."""
    head = json.dumps({key: value for key, value in run.items() if key != "cases"}, indent=1, ensure_ascii=False)[:-2]
    lines = [f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in run["cases"].items()]
    return f'{head},\n "cases": {{\n' + ",\n".join(lines) + "\n }\n}\n"


def joined(paths: Sequence[Path]) -> Run:
    """The figures of several files as one run; Apart where they are of different machines or versions."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    first = runs[0]
    for path, run in zip(paths[1:], runs[1:], strict=True):
        if differing := [key for key in SAME if first.get(key) != run.get(key)]:
            facts = "; ".join(f"{key}: {first.get(key)} and {run.get(key)}" for key in differing)
            raise Apart(
                f"{paths[0]} and {path} are not of one machine with the same versions ({facts}): their figures are not "
                "put together. Show each by itself"
            )
    cases = {name: case for run in runs for name, case in run["cases"].items()}
    return {**first, "cases": cases}


def ratios(run: Run) -> dict[str, list[float]]:
    """For each peer how many times as long as ours its calls take, case by case."""
    found: dict[str, list[float]] = {}
    for case in run["cases"].values():
        for name, us in case["us"].items():
            if name not in (OURS, COPY):
                found.setdefault(name, []).append(us / case["us"][OURS])
    return found
