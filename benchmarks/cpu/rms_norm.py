# SPDX-License-Identifier: MIT
"""rms_norm on the CPU: this library, torch eager, and a plain copy, in turns in one process.

    python benchmarks/cpu/rms_norm.py path/to/libkernelwright.so [--threads N] [--rounds N] [--isa avx2]

All three make their result in fresh memory, as a user's call does; the copy is what no kernel can beat by much.
Rounds alternate, with a pause before each so that idle OpenMP threads have stopped spinning; medians are printed,
and ratios, which a busy machine disturbs less than times.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import rms_norm as torch_rms_norm

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
CPU = -1
SHAPES = [(1, 4096), (8, 4096), (64, 4096), (512, 4096), (65536, 128), (16384, 4096), (1024, 65536)]


def bind(path: str) -> ctypes.CDLL:
    lib = ctypes.CDLL(path)
    p, i64, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    lib.kw_rms_norm.argtypes = [i32, p, p, i64, p, i64, p, i64, p, i64, p, p, i64, i64, i32, i32, ctypes.c_double]
    lib.kw_last_error.restype = lib.kw_cpu_isa.restype = ctypes.c_char_p
    lib.kw_set_option.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    return lib


def ours(lib: ctypes.CDLL, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor) -> torch.Tensor:
    rows, cols = x.shape
    y = torch.empty_like(x)
    total = torch.empty_like(x) if residual is not None else None
    status = lib.kw_rms_norm(
        CPU, None, y.data_ptr(), cols, total.data_ptr() if total is not None else None, cols, x.data_ptr(), cols,
        residual.data_ptr() if residual is not None else None, cols, weight.data_ptr(), None, rows, cols,
        DTYPES[x.dtype], DTYPES[weight.dtype], 1e-6,
    )  # fmt: skip
    if status:
        raise RuntimeError(lib.kw_last_error().decode())
    return y


def eager(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor) -> torch.Tensor:
    h = x if residual is None else x + residual
    return torch_rms_norm(h, (h.shape[1],), weight, 1e-6)


def seconds(call: Callable[[], Any], repeat: int) -> float:
    time.sleep(0.01)
    call()
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat


def compare(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    once = max(seconds(call, 1) for call in calls.values())
    repeat = max(1, int(0.01 / once))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(seconds(call, repeat))
    return {name: statistics.median(values) for name, values in samples.items()}


def line(lib: ctypes.CDLL, shape: tuple[int, int], dtype: torch.dtype, with_residual: bool, rounds: int) -> str:
    rows, cols = shape
    x = torch.randn(rows, cols).to(dtype)
    residual = torch.randn(rows, cols).to(dtype) if with_residual else None
    weight = torch.randn(cols).to(dtype)
    torch.testing.assert_close(ours(lib, x, residual, weight), eager(x, residual, weight), atol=3e-2, rtol=3e-2)
    took = compare(
        {
            "ours": lambda: ours(lib, x, residual, weight),
            "torch": lambda: eager(x, residual, weight),
            "copy": lambda: (x.clone(), residual.clone() if residual is not None else None),
        },
        rounds,
    )
    moved = x.nbytes * (4 if with_residual else 2)
    name = str(dtype).removeprefix("torch.") + (" + residual" if with_residual else "")
    return (
        f"{rows:6d} x {cols:<6d} {name:20s} {took['ours'] * 1e6:10.1f} {took['torch'] * 1e6:10.1f} "
        f"{took['copy'] * 1e6:10.1f} {moved / took['ours'] / 1e9:8.1f} {took['torch'] / took['ours']:9.2f}x "
        f"{took['copy'] / took['ours']:9.2f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--isa", default="")
    options = parser.parse_args()
    lib = bind(options.library)
    torch.set_num_threads(options.threads)
    for status in (lib.kw_set_num_threads(options.threads), lib.kw_set_option(b"cpu_isa", options.isa.encode())):
        if status:
            raise SystemExit(lib.kw_last_error().decode())
    print(f"torch {torch.__version__}, {options.threads} threads, {lib.kw_cpu_isa().decode()}")
    titles = ("ours us", "torch us", "copy us", "GB/s", "to torch", "to copy")
    print(f"{'shape':36s} " + " ".join(f"{title:>{8 if title == 'GB/s' else 10}}" for title in titles))
    for rows, cols in SHAPES:
        for dtype in DTYPES:
            for with_residual in (False, True):
                if rows * cols > 1 << 24 and (with_residual or dtype is torch.float16):
                    continue  # hundreds of megabytes: two lines are enough
                print(line(lib, (rows, cols), dtype, with_residual, options.rounds), flush=True)


if __name__ == "__main__":
    main()
