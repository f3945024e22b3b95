# SPDX-License-Identifier: MIT
"""Processes of one group, one a GPU over NCCL; on the CPU over gloo, as many as asked. What each step here begins with."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

# NVLink multicast: a program that uses it can put GPUs that others share out of service.
WITHOUT_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


def options(doc: str | None) -> argparse.Namespace:
    """Those of every step: where it runs, in how many processes, and the file that its result goes to."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the program")
    return parser.parse_args()


def write(out: Path, found: Any) -> None:
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found)[:2000], flush=True)


def _child(
    rank: int, world: int, device: str, meet: str, work: Callable[..., Any], given: tuple[Any, ...], results: Any
) -> None:
    here: Any = {}
    if device == "cuda":
        torch.cuda.set_device(rank)
        here = {"device_id": torch.device("cuda", rank)}
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo", init_method=f"file://{meet}", rank=rank, world_size=world, **here
    )
    try:
        results.put((rank, work(rank, world, device, *given)))
        dist.barrier()
    finally:
        dist.destroy_process_group()


def together(work: Callable[..., Any], world: int, device: str, *given: Any, seconds: float = 240) -> list[Any]:
    """What `work(rank, world, device, *given)` returns in each process. When one fails the others, which would wait for
    it, are ended."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        meet = str(Path(folder) / "meeting")
        started = [
            context.Process(target=_child, args=(rank, world, device, meet, work, given, results))
            for rank in range(world)
        ]
        for process in started:
            process.start()
        found: dict[int, Any] = {}
        end = time.monotonic() + seconds
        try:
            while any(process.is_alive() for process in started):
                while not results.empty():
                    found.update([results.get()])
                failed = [process.exitcode for process in started if process.exitcode not in (None, 0)]
                if failed or time.monotonic() > end:
                    raise RuntimeError(f"exit codes {[p.exitcode for p in started]}; None: ended after waiting")
                time.sleep(0.05)
            while len(found) < world:
                found.update([results.get(timeout=5)])
        finally:
            for process in started:
                if process.is_alive():
                    process.kill()
                process.join()
    return [found[rank] for rank in range(world)]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Also where a NaN, which is equal to nothing, would hide what it is beside."""
    flat = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (a, b)]
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*flat)


def apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The length of the difference, as a share of what was expected."""
    wide = expected.detach().double()
    return float((found.detach().double() - wide).norm() / wide.norm().clamp(min=1e-300))
