# SPDX-License-Identifier: MIT
"""The optimizers' family on a GPU: numbers against float64, then times beside a copy of as many bytes and bitsandbytes.

    python -m tests.gpu.optimizers FILE [--ops a,b]     from the root of the tree, with the wheel installed

FILE is written after each step. Times are of CUDA graphs over sets of tensors in turns, so that no cache holds them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import kernelwright
from kernelwright import ops, optim
from tests.gpu import program

if TYPE_CHECKING:
    from collections.abc import Callable

OPS = ("quantize_blockwise", "dequantize_blockwise", "optimizer_update_8bit_blockwise", "optimizer_update_32bit")
ROUNDS, CALLS = 7, 6


def worst_of(op: Any) -> dict[str, Any]:
    """The largest share of the error allowed, over all cases in each layout."""
    generator, found = torch.Generator("cuda").manual_seed(7), {"calls": 0, "worst": 0.0, "at": ""}
    for case in op.cases:
        for offset, gap in program.LAYOUTS:
            arguments = tuple(program.moved(a, offset, gap) for a in op.make(case, "cuda", generator))
            exact = [a.double().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
            expected = program.expected(op, case, arguments)
            got = program.outputs(op, case, arguments)
            bounds = program.bounds(op, case, exact, expected, [t.dtype for t in got])
            for tensor, wide, bound in zip(got, expected, bounds, strict=True):
                share = ((tensor.double() - wide).abs() / bound).nan_to_num(nan=float("inf"))
                found["calls"] += 1
                if share.numel() and share.max().item() > found["worst"]:
                    found |= {"worst": share.max().item(), "at": f"{case}, {offset} off, {gap} apart"}
    return found


def microseconds(calls: list[Callable[[], Any]]) -> float:
    """Of one call: the median over rounds of a graph that makes all of these in turns."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            for call in calls:
                call()
    begin, end, taken = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True), []
    graph.replay()
    for _ in range(ROUNDS):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) * 1000 / CALLS / len(calls))
    return statistics.median(taken)


def uncaptured(calls: list[Callable[[], Any]]) -> float:
    """The same without a graph, for whoever launches on a stream of its own choice, which no graph sees."""
    for call in calls:
        call()
    begin, end, taken = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True), []
    for _ in range(ROUNDS):
        begin.record()
        for _ in range(CALLS):
            for call in calls:
                call()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) * 1000 / CALLS / len(calls))
    return statistics.median(taken)


def copied(count: int) -> float:
    """A copy that moves so many bytes, half of them read."""
    pairs = [[torch.empty(count // 2, dtype=torch.uint8, device="cuda") for _ in range(2)] for _ in range(2)]
    return microseconds([lambda a=a, b=b: a.copy_(b) for a, b in pairs])


def timed(op: Any, case: Any) -> dict[str, Any]:
    generator, bits = torch.Generator("cuda").manual_seed(3), op.bytes(case)
    sets = [op.make(case, "cuda", generator) for _ in range(2)]
    call = getattr(getattr(torch.ops.kernelwright, op.name), case.overload)
    found = {"bytes": bits, "ours": microseconds([lambda s=s: call(*s) for s in sets]), "copy": copied(bits)}
    try:
        bind = _peer(op.name)[case.overload]
        found["bitsandbytes"] = uncaptured([bind(*s) for s in sets])
    except ImportError as error:
        found["bitsandbytes"] = f"not there: {error}"
    except ValueError as error:
        found["bitsandbytes"] = f"refused: {error}"
    return found | {"again": microseconds([lambda s=s: call(*s) for s in sets])}


def _peer(name: str) -> Any:
    import importlib

    return importlib.import_module(f"kernelwright.bench.peers.optim.{name}").bitsandbytes()


def steps(make: Callable[..., Any]) -> float:
    """Wall time of a step of 200 tensors of 1e5 parameters, in microseconds."""
    import time

    params = [torch.nn.Parameter(torch.randn(100_000, device="cuda", dtype=torch.bfloat16)) for _ in range(200)]
    for p in params:
        p.grad = torch.randn_like(p)
    optimizer, taken = make(params), []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.step()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - start) * 1e6)
    return statistics.median(taken[5:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--ops", default=",".join(OPS))
    asked = parser.parse_args()
    ops.register()
    records = [ops.record(name) for name in asked.ops.split(",")]
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "kernelwright": kernelwright.__version__}

    def note(key: str, value: Any) -> None:
        results[key] = value
        asked.file.write_text(json.dumps(results, indent=1) + "\n")
        print(key, value, flush=True)

    for op in records:
        note(f"numbers {op.name}", worst_of(op))
    for op in records:
        for case in op.benchmarks:
            note(f"{op.name} {case}", timed(op, case))
            torch.cuda.empty_cache()
    note("200 tensors, AdamW8bit", steps(optim.AdamW8bit))
    try:
        import bitsandbytes
    except ImportError as error:
        note("200 tensors, bitsandbytes", f"not there: {error}")
    else:
        note("200 tensors, bitsandbytes", steps(bitsandbytes.optim.AdamW8bit))


if __name__ == "__main__":
    main()
