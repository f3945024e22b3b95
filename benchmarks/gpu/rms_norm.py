# SPDX-License-Identifier: MIT
"""rms_norm on a GPU beside torch.compile, torch eager and an elementwise copy, all in one process.

    python benchmarks/gpu/rms_norm.py PATH/lib/libkernelwright.so [OUT.json]

Every contestant is captured in a CUDA graph of calls over buffers that together exceed L2 (where memory allows),
the graphs are replayed in turn, and medians are compared. `copy` is a kernel that reads and writes as many bytes.
"""

from __future__ import annotations

import ctypes
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

EPS = 1e-6
DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
BIG = 1 << 29  # bytes of x where bandwidth is what counts
WIDTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
ODD = ((64, 2), (128, 2), (512, 2), (5120, 2), (7168, 2), (100, 2), (250, 2), (513, 2), (50257, 2), (17, 4), (333, 4))
FEW = ((1, 1024), (1, 4096), (1, 65536), (8, 4096), (16, 16384), (64, 1024), (64, 4096), (64, 65536), (64, 128))
SOME = ((128, 8192), (256, 4096), (512, 4096), (1024, 4096), (2048, 4096), (4096, 4096), (16384, 8192))


class Library:
    """kw_rms_norm through ctypes, as a program without Python would call it."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.kw_last_error.restype = ctypes.c_char_p
        pointer, wide, narrow = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        tensors = [pointer, wide] * 4 + [pointer, pointer]
        self._library.kw_rms_norm.argtypes = [narrow, pointer, *tensors, wide, wide, narrow, narrow, ctypes.c_double]

    def __call__(self, x: Any, residual: Any, weight: Any, y: Any, total: Any) -> None:
        tensors = [
            part
            for t in (y, total, x, residual)
            for part in ((t.data_ptr(), t.stride(0)) if t is not None else (None, 0))
        ]
        stream = torch.cuda.current_stream().cuda_stream
        dtypes = DTYPES[x.dtype], DTYPES[weight.dtype]
        status = self._library.kw_rms_norm(0, stream, *tensors, weight.data_ptr(), None, *x.shape, *dtypes, EPS)
        if status:
            raise RuntimeError(self._library.kw_last_error().decode())


def plain(x: Any, residual: Any, weight: Any) -> Any:
    """What torch.compile gets: float32 inside, one rounding, the sum returned beside the result."""
    if residual is None:
        return functional.rms_norm(x, (x.shape[-1],), weight, EPS)
    h = x.float() + residual.float()
    y = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + EPS) * weight.float()
    return y.to(x.dtype), h.to(x.dtype)


class Graph:
    def __init__(self, calls: list[Callable[[], Any]]) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            calls[0]()
        torch.cuda.synchronize()
        self._graph, self._calls, self._times = torch.cuda.CUDAGraph(), len(calls), list[float]()
        with torch.cuda.graph(self._graph):
            self._kept = [call() for call in calls]

    def replay(self) -> None:
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        self._graph.replay()
        end.record()
        end.synchronize()
        self._times.append(begin.elapsed_time(end) * 1e3 / self._calls)

    def median(self) -> float:
        times = sorted(self._times[1:])
        return round(times[len(times) // 2], 3)


def measure(library: Library, rows: int, cols: int, dtype: torch.dtype, add: bool) -> dict[str, float]:
    moved = rows * cols * dtype.itemsize * (4 if add else 2)
    sets = 1 if moved > 4e8 else min(40, max(2, int(5e8 // moved)))
    calls = max(sets, 4)

    def fresh() -> list[Any]:
        return [torch.randn(rows, cols, device="cuda").to(dtype) for _ in range(sets)]

    x, residual = fresh(), fresh() if add else [None] * sets
    y, total = fresh(), fresh() if add else [None] * sets
    weight = torch.randn(cols, device="cuda").to(dtype)
    torch.compiler.reset()
    compiled = torch.compile(plain, dynamic=False)

    def copy(i: int) -> None:
        torch.neg(x[i], out=y[i])
        if add:
            torch.neg(residual[i], out=total[i])

    contestants: dict[str, Callable[[int], Any]] = {
        "kernelwright": lambda i: library(x[i], residual[i], weight, y[i], total[i]),
        "compile": lambda i: compiled(x[i], residual[i], weight),
        "copy": copy,
    }
    if moved < 1e8:
        contestants["eager"] = lambda i: plain(x[i], residual[i], weight)
    graphs = {name: Graph([lambda i=i, f=f: f(i % sets) for i in range(calls)]) for name, f in contestants.items()}
    for _ in range(10):
        for graph in graphs.values():
            graph.replay()
    return {name: graph.median() for name, graph in graphs.items()} | {"bytes": moved}


def shapes() -> list[tuple[int, int, torch.dtype, bool]]:
    half, full = torch.bfloat16, torch.float32
    big = [
        (BIG // (c * d.itemsize * (2 if add else 1)), c, d, add)
        for d in (half, full)
        for c in WIDTHS
        for add in (False, True)
    ]
    odd = [(BIG // (c * size), c, half if size == 2 else full, False) for c, size in ODD]
    rest = [(r, c, half, add) for r, c in FEW + SOME for add in (False, True)]
    return big + odd + rest


def main(path: str, out: str | None) -> None:
    library, results = Library(path), {}
    for rows, cols, dtype, add in shapes():
        name = f"{rows}x{cols} {str(dtype)[6:]}{' + residual' if add else ''}"
        us = results[name] = measure(library, rows, cols, dtype, add)
        bandwidth = us["bytes"] / us["kernelwright"] / 1e3
        share, ratio = us["copy"] / us["kernelwright"], us["kernelwright"] / us["compile"]
        speed = f"{us['kernelwright']:9.2f} us {bandwidth:6.0f} GB/s"
        print(f"{name:34s} {speed}  {share:6.1%} of copy  {ratio:6.3f} of compile", flush=True)
        torch.cuda.empty_cache()
    if out:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        device, driver = (
            subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
        )
        facts = {"device": device, "driver": driver, "torch": torch.__version__, "python": platform.python_version()}
        text = json.dumps({**facts, "unit": "microseconds a call", "shapes": results}, indent=1)
        Path(out).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
