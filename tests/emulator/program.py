# SPDX-License-Identifier: MIT
"""Operators on an emulated GPU, in a process of its own: cases of their records against float64, on fresh numbers.

    python -m tests.emulator.program FOLDER DEVICE [--ops a,b] [--every N] [--benchmarks BYTES] [--seed N]

FOLDER has the emulating driver and the images (build.py); DEVICE is capability/multiprocessors/MiB of L2, as in
9.0/132/50. Each case is run where it lies on 16 bytes, and 1 and 3 elements off. The last line is a JSON of what
failed and which kernels ran.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from kernelwright import _library, errors, ops
from tests.emulator.emulated import Driver, OnDevice, memory
from tests.gpu.program import bounds, expected, written

OFFSETS = (0, 1, 3)


def chosen(op: Any, every: int, benchmarks: int) -> Iterator[Any]:
    """Each `every`th of the record's cases, and those of its benchmarks that move no more bytes."""
    yield from op.cases[::every]
    yield from (case for case in op.benchmarks if op.bytes(case) <= benchmarks)


def wrong(driver: Driver, library: OnDevice, op: Any, case: Any, arguments: tuple[Any, ...], offset: int) -> str | None:
    """What is wrong with this call, if anything."""
    overload = op.overload(case.overload)
    exact = [a.double().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    reference = expected(op, case, arguments)
    with memory(driver, offset) as device:
        given = [
            device.given(a, f"argument {number}", writable=writes)
            for number, (a, writes) in enumerate(zip(arguments, written(op, case), strict=False))
        ]
        try:
            found = library.bind(overload)(*given)
        except errors.KernelwrightError as error:
            return str(error)
    tensors = [*(found if isinstance(found, tuple) else (found,)), *(a for a in given if isinstance(a, torch.Tensor))]
    allowed = bounds(op, case, exact, reference, [t.dtype for t in tensors])
    for number, (tensor, wide, bound) in enumerate(zip(tensors, reference, allowed, strict=True)):
        share = (tensor.double() - wide).abs() / bound
        if share.numel() and not share.max() <= 1.0:
            return f"tensor {number} has {share.max().item():.2f} times the error allowed"
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("device")
    parser.add_argument("--ops", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--benchmarks", type=int, default=0)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    os.environ |= {"KW_EMULATOR_DEVICES": asked.device, "KW_EMULATOR_IMAGES": str(asked.folder)}
    torch.set_num_threads(1)
    driver = Driver(asked.folder / "libcuda.so.1")
    library = OnDevice(_library.load(), 0)
    generator = torch.Generator().manual_seed(asked.seed)
    failures, calls = [], 0
    for op in map(ops.record, asked.ops.split(",") if asked.ops else ops.names()):
        for case in chosen(op, asked.every, asked.benchmarks):
            arguments = op.make(case, "cpu", generator)
            for offset in OFFSETS:
                calls += 1
                if said := wrong(driver, library, op, case, arguments, offset):
                    failures.append((op.name, f"{case}, {offset} elements off: {said}"))
                    print(*failures[-1], flush=True)
    print(json.dumps({"seed": asked.seed, "calls": calls, "failures": failures, "launched": sorted(driver.launched())}))


if __name__ == "__main__":
    main()
