# SPDX-License-Identifier: MIT
"""What a call costs on the CPU beside its work: microseconds above torch.empty_like, for each operator on one tiny row,
as `kernelwright.<op>` and derivatives come to it (past torch's dispatcher) and as `torch.ops.kernelwright.<op>`.

    python benchmarks/overhead.py [--device cuda] [OUT.json]

The least mean of many short batches: what other processes do to one of them does not count. On a GPU no batch is longer
than its queue, and the GPU has done all before the next one begins. Without gradients; backward passes by themselves.
Beside each what one writes in torch to the same end. The goal is 15 microseconds.
"""

from __future__ import annotations

import argparse
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
from kernelwright.ops import _calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLS = {"cpu": 200, "cuda": 50}
SECONDS = 0.6
GOAL = 15.0


def microseconds(call: Callable[[], Any], device: str) -> float:
    call()
    best, calls, end = float("inf"), CALLS[device], time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
        if device == "cuda":
            torch.cuda.synchronize()
    return 1e6 * best


def calls(device: str) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any], Callable[[], Any] | None]]:
    """The smallest float32 case of each overload that is not empty: direct, by the dispatcher, and what torch has."""
    generator = torch.Generator(device).manual_seed(1)
    for op in map(ops.record, ops.names()):
        for overload in op.overloads:
            cases = [c for c in op.cases if c.overload == overload.name and c.dtype == "float32" and min(c.shape) > 0]
            if not cases:
                continue
            case = min(cases, key=lambda c: torch.Size(c.shape).numel())
            through, straight = (
                getattr(getattr(space, op.name), overload.name) for space in (torch.ops.kernelwright, _calls.calls)
            )
            arguments = op.make(case, device, generator)
            eager = op.eager[overload.name](*arguments) if overload.name in op.eager else None
            ways = (lambda way=way, arguments=arguments: way(*arguments) for way in (straight, through))
            yield f"{op.name} {case}", *ways, eager


def device_name(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return model[0].partition(":")[2].strip() if model else platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=CALLS, default="cpu")
    parser.add_argument("out", nargs="?", type=Path)
    given = parser.parse_args()
    ops.register()
    torch.set_num_threads(2)
    tiny = torch.randn(1, 8, device=given.device)
    least = microseconds(lambda: torch.empty_like(tiny), given.device)
    found, dispatched, beside = {}, {}, {}
    with torch.no_grad():
        beside["torch.add"] = round(microseconds(lambda: torch.add(tiny, tiny), given.device) - least, 1)
        for name, call, operator, eager in calls(given.device):
            found[name] = cost = round(microseconds(call, given.device) - least, 1)
            dispatched[name] = round(microseconds(operator, given.device) - least, 1)
            if eager:
                beside[name] = round(microseconds(eager, given.device) - least, 1)
            above = "" if cost <= GOAL else "   above the goal"
            others = f"by torch.ops {dispatched[name]:4.1f}, in torch {beside.get(name, '-'):>5}"
            print(f"{cost:6.1f} us, {others}  {name}{above}", flush=True)
    if given.out:
        told = {"unit": "microseconds above torch.empty_like", "torch.empty_like": round(least, 1),
                "device": device_name(given.device), "commit": record.commit(),
                "command": f"python benchmarks/overhead.py --device {given.device} OUT.json",
                "torch": torch.__version__, "python": platform.python_version(),
                "calls": found, "by torch.ops": dispatched, "in torch": beside}  # fmt: skip
        given.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
