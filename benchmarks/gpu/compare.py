# SPDX-License-Identifier: MIT
"""Every operator's benchmark cases on a GPU: the kernel, the same formula through torch.compile and in eager torch,
and an elementwise copy of as many bytes, in turns in one process.

    python benchmarks/gpu/compare.py --out results.json [--ops rms_norm] [--commit HASH] [--rounds 9]

How it measures, and why:
  * each contestant's calls are captured in a CUDA graph, so that launch gaps of Python do not count;
  * the calls rotate over as many sets of tensors as outgrow the L2 several times, so that memory is what is timed;
  * rounds alternate between contestants, so that a clock that drifts drifts for all; medians are reported;
  * the ceiling is the fastest of elementwise kernels that move the case's bytes in the same run (a captured copy_
    becomes a memcpy node, which is slower than a kernel).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kernelwright import _files, ops

if TYPE_CHECKING:
    from collections.abc import Callable

WORKING_SET = 500_000_000  # bytes; several times any L2
MOST_SETS = 48


class Contestant:
    """A graph of one call on each set of tensors."""

    def __init__(self, call: Callable[[int], Any], sets: int) -> None:
        self.calls = max(sets, 4)
        self.times: list[float] = []
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for index in range(3):  # compiles, loads, warms up
                call(index % sets)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        self.kept = []
        with torch.cuda.graph(self.graph):
            for index in range(self.calls):
                self.kept.append(call(index % sets))
        self.graph.replay()

    def run(self) -> None:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        self.times.append(begin.elapsed_time(end) * 1e3 / self.calls)

    def median(self) -> float:
        return round(statistics.median(self.times), 3)


def copies(traffic: int, sets: int) -> dict[str, Callable[[int], Any]]:
    """Elementwise kernels that read half of the bytes and write the other half."""
    count = max(traffic // 4 // 2, 1)
    pairs = [(torch.randn(count, device="cuda"), torch.empty(count, device="cuda")) for _ in range(sets)]
    halves = [(a.view(torch.bfloat16), b.view(torch.bfloat16)) for a, b in pairs]
    return {
        "copy neg float32": lambda i: torch.neg(pairs[i][0], out=pairs[i][1]),
        "copy abs bfloat16": lambda i: torch.abs(halves[i][0], out=halves[i][1]),
    }


def measure(op: Any, case: Any, rounds: int) -> dict[str, Any]:
    overload = op.overload(case.overload)
    traffic = op.bytes(case)
    sets = min(max(1, WORKING_SET // traffic + 1), MOST_SETS)
    generator = torch.Generator("cuda").manual_seed(1)
    arguments = [op.make(case, "cuda", generator) for _ in range(sets)]
    kernel = getattr(getattr(torch.ops.kernelwright, op.name), overload.name)
    torch._dynamo.reset()  # noqa: SLF001 - one compilation a case, as a program with that shape would have
    compiled = torch.compile(overload.reference, dynamic=False)
    calls = {
        "kernelwright": lambda i: kernel(*arguments[i]),
        "torch.compile": lambda i: compiled(*arguments[i]),
        "torch eager": lambda i: overload.reference(*arguments[i]),
        **copies(traffic, sets),
    }
    contestants = {name: Contestant(call, sets) for name, call in calls.items()}
    for _ in range(rounds):
        for contestant in contestants.values():
            contestant.run()
    found = {name: contestant.median() for name, contestant in contestants.items()}
    ceiling = min(time for name, time in found.items() if name.startswith("copy"))
    return {
        "op": op.name,
        "case": str(case),
        "bytes": traffic,
        "sets": sets,
        "microseconds": found,
        "share_of_copy": round(ceiling / found["kernelwright"], 4),
        "against_compile": round(found["torch.compile"] / found["kernelwright"], 4),
        "gigabytes_per_second": round(traffic / found["kernelwright"] / 1e3, 1),
    }


def machine() -> dict[str, Any]:
    manifest = _files.read("manifest.json")
    return {
        "device": torch.cuda.get_device_name(),
        "driver_cuda": torch.version.cuda,
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "kernelwright": {key: manifest[key] for key in ("version", "toolkit", "provider", "compiler")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ops", nargs="*", default=None)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--driver", default="unknown")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    ops.register()
    result: dict[str, Any] = {
        **machine(), "driver": options.driver, "commit": options.commit, "command": " ".join(sys.argv), "cases": [],
    }  # fmt: skip
    for op in (ops.record(name) for name in options.ops or ops.names()):
        for case in op.benchmarks:
            row = measure(op, case, options.rounds)
            result["cases"].append(row)
            time, share = row["microseconds"], 100 * row["share_of_copy"]
            print(
                f"{row['op']} {row['case']:<45} {time['kernelwright']:9.2f} us  {share:5.1f} % of copy"
                f"  compile {time['torch.compile']:9.2f}  eager {time['torch eager']:9.2f}",
                flush=True,
            )
            options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
