# SPDX-License-Identifier: MIT
"""What a call costs on the CPU beside its work: microseconds above torch.empty_like, for each operator on one tiny row.

    python benchmarks/overhead.py [OUT.json]

The least mean of many short batches: what other processes do to one of them does not count. Forward overloads only,
without gradients. The goal is 15 microseconds.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import record
from kernelwright import ops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCHES, CALLS = 300, 200
GOAL = 15.0


def microseconds(call: Callable[[], Any]) -> float:
    call()
    best = float("inf")
    for _ in range(BATCHES):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - start) / CALLS)
    return 1e6 * best


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The smallest float32 case of each forward overload that is not empty."""
    generator = torch.Generator().manual_seed(1)
    for op in map(ops.record, ops.names()):
        for overload in op.overloads:
            cases = [c for c in op.cases if c.overload == overload.name and c.dtype == "float32" and min(c.shape) > 0]
            if "backward" in overload.name or not cases:
                continue
            case = min(cases, key=lambda c: torch.Size(c.shape).numel())
            target = getattr(getattr(torch.ops.kernelwright, op.name), overload.name)
            arguments = op.make(case, "cpu", generator)
            yield f"{op.name} {case}", lambda target=target, arguments=arguments: target(*arguments)


def _device() -> str:
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return model[0].partition(":")[2].strip() if model else platform.machine()


def main() -> None:
    ops.register()
    torch.set_num_threads(2)
    tiny = torch.randn(1, 8)
    least = microseconds(lambda: torch.empty_like(tiny))
    found = {name: round(microseconds(call) - least, 1) for name, call in calls()}
    for name, cost in found.items():
        print(f"{cost:6.1f} us  {name}{'' if cost <= GOAL else '   above the goal'}")
    if len(sys.argv) > 1:
        told = {"unit": "microseconds above torch.empty_like", "device": _device(), "commit": record.commit(),
                "torch": torch.__version__, "python": platform.python_version(), "calls": found}  # fmt: skip
        Path(sys.argv[1]).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
