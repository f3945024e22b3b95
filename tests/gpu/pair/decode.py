# SPDX-License-Identifier: MIT
"""A model of the 8B Llama's shapes, random weights, NF4: text by one GPU and by all in tensor parallel, in one run.

    python -m tests.gpu.pair.decode FILE [--device cpu --quick] [--processes N]

The model is the one of `python -m kernelwright bench`. A step is a CUDA graph, its all-reduces of NCCL in it. Their share is
read from torch's profiler: it counts what one GPU waits for another, too.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import parallelize_module

from kernelwright.bench._measure import SEED, Generation
from kernelwright.bench._model import Model
from kernelwright.bench._shapes import SHAPES, Shape
from kernelwright.distributed import ColwiseParallel, RowwiseParallel
from tests.gpu.pair import ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.distributed.device_mesh import DeviceMesh

PROMPT, TOKENS, BATCHES = 16, 64, (1, 16)
BOUND = 3e-2  # of logits in bfloat16: two layers' sums round twice where one GPU's round once


@dataclass(frozen=True)
class Part(Shape):
    """What one of several processes has of each layer: whole heads."""

    parts: int = 1

    @property
    def head(self) -> int:
        return self.width // (self.heads * self.parts)


def shared(model: Model, mesh: DeviceMesh) -> None:
    """Every process has made the same model: nothing needs to be sent."""
    whole, world = model.shape, mesh.size()
    part = Part(
        whole.width, whole.inner // world, whole.layers, whole.heads // world, whole.kv_heads // world,
        whole.vocabulary, world,
    )  # fmt: skip
    columns = dict.fromkeys(("q", "k", "v", "gate", "up"), ColwiseParallel)
    for block in model.blocks:
        plan = {name: style() for name, style in (columns | {"o": RowwiseParallel, "down": RowwiseParallel}).items()}
        parallelize_module(block, mesh, plan, src_data_rank=None)
        block.shape = part  # type: ignore[assignment]
    parallelize_module(model.head, mesh, ColwiseParallel(output_layouts=Replicate()), src_data_rank=None)
    model.shape = part


def timed(generation: Generation, requests: int) -> dict[str, float]:
    """Tokens a second of whole requests, and the median milliseconds of a step after the first token."""
    generation.request()
    begin, steps = time.perf_counter(), []
    for _ in range(requests):
        steps += generation.request()[1]
    seconds = time.perf_counter() - begin
    batch = len(generation.prompt)
    return {
        "tokens_per_second": requests * batch * generation.tokens / seconds,
        "token_ms": 1e3 * statistics.median(steps),
    }


def by_kernel(step: Callable[[], Any], times: int) -> dict[str, float]:
    """Microseconds of a step's kernels on this GPU: NCCL's and all, beside the step's own time under the profiler."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        begin = time.perf_counter()
        for _ in range(times):
            step()
        torch.cuda.synchronize()
        wall = (time.perf_counter() - begin) * 1e6 / times
    rows = [(each.key, each.self_device_time_total / times) for each in seen.key_averages()]
    nccl, every = sum(us for name, us in rows if "nccl" in name.lower()), sum(us for _, us in rows)
    return {"nccl_us": nccl, "kernels_us": every, "step_us": wall, "share_of_nccl": nccl / wall if wall else 0.0}


def all_reduces(width: int, count: int) -> float:
    """Microseconds of one all-reduce of a step's result, in a graph of so many with nothing between them."""
    x = torch.zeros(1, 1, width, dtype=torch.bfloat16, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            dist.all_reduce(x)
    taken = []
    for _ in range(10):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - begin) * 1e6 / count)
    return statistics.median(taken)


def generated(model: Model, device: str, *, graph: bool, requests: int, profiled: bool) -> list[dict[str, Any]]:
    found = []
    for batch in BATCHES:
        generation = Generation(model, batch, PROMPT, TOKENS if device == "cuda" else 4, graph=graph)
        row: dict[str, Any] = {"batch": batch, "graph": graph} | timed(generation, requests)
        if profiled:
            generation.first()
            row |= by_kernel(generation.step, 20)
        found.append(row)
    return found


def measured(rank: int, world: int, device: str, name: str) -> dict[str, Any]:
    """One GPU (each process its own, at the same time), then all together; graphs, and calls one by one."""
    gpu, found = device == "cuda", {}

    def note(key: str, value: Any) -> None:
        found[key] = value
        print(f"process {rank}, {key}: {value}", flush=True)  # kept where what follows fails

    mesh = init_device_mesh(device, (world,))
    torch.manual_seed(SEED)
    with torch.no_grad():
        model = Model(SHAPES[name], device, quantized=True)
        logits = Generation(model, 1, PROMPT, 1, graph=False).read_prompt()
        note("one", generated(model, device, graph=gpu, requests=3, profiled=gpu))
        dist.barrier()
        shared(model, mesh)
        others = Generation(model, 1, PROMPT, 1, graph=False).read_prompt()
        note("logits apart", ranks.apart(others, logits))
        note("parallel, no graph", generated(model, device, graph=False, requests=1, profiled=False))
        if gpu:
            note("parallel", generated(model, device, graph=True, requests=3, profiled=True))
            note("all_reduce_us", all_reduces(SHAPES[name].width, 2 * SHAPES[name].layers))
            note("memory_bytes", torch.cuda.max_memory_allocated())
    return found | {"ok": found["logits apart"] <= BOUND}


def main() -> None:
    asked = ranks.options(__doc__)
    name = "llama-tiny-like" if asked.quick else "llama-8b-like"
    found = ranks.together(measured, asked.processes, asked.device, name)
    ranks.write(
        asked.out,
        {
            "model": name,
            "prompt": PROMPT,
            "tokens": TOKENS,
            "processes": found,
            "ok": all(each["ok"] for each in found),
        },
    )


if __name__ == "__main__":
    main()
