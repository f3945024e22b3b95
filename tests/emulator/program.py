# SPDX-License-Identifier: MIT
"""Operators on emulated GPUs, in a process of its own: cases of their records against float64, on fresh numbers.

    python -m tests.emulator.program FOLDER DEVICES [--ops a,b] [--every N] [--all-of CODE] [--seed N]

FOLDER has the emulating driver and the images (build.py); DEVICES are capability/multiprocessors/MiB of L2, as in
9.0/132/50,9.0/1/0.25. Each case is run on the first one in several layouts. For each kernel of CODE that none of them
took, the cheapest case that does is looked for on all devices. The last line is a JSON of what failed and which
kernels of CODE did not run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from kernelwright import _library, errors, ops
from kernelwright.ops._record import SIZES
from tests.emulator.build import kernels_of
from tests.emulator.emulated import Driver, OnDevice, memory
from tests.gpu.program import LAYOUTS, bounds, expected, written

# What a searched case may move. With 0.25 MiB of L2 that is a lot.
SEARCHED_BYTES = 2_500_000


@dataclass(frozen=True)
class Call:
    """One case on one device."""

    driver: Driver
    library: OnDevice
    op: Any
    case: Any
    arguments: tuple[Any, ...]
    layout: tuple[int, int]

    def run(self) -> str | None:
        """What is wrong, if anything."""
        exact = [a.double().clone() if isinstance(a, torch.Tensor) else a for a in self.arguments]
        reference = expected(self.op, self.case, self.arguments)
        with memory(self.driver, *self.layout) as device:
            try:
                tensors = self._tensors(device)
            except errors.KernelwrightError as error:
                return str(error)
        if not device.spared():
            return "elements between rows were written"
        allowed = bounds(self.op, self.case, exact, reference, [t.dtype for t in tensors])
        for number, (tensor, wide, bound) in enumerate(zip(tensors, reference, allowed, strict=True)):
            found = tensor.double()
            share = torch.where(found == wide, 0.0, (found - wide).abs() / bound)  # infinite sums of rows without keys
            if share.numel() and not share.max() <= 1.0:
                return f"tensor {number} has {share.max().item():.2f} times the error allowed"
        return None

    def kernels(self) -> set[str]:
        """Those that it launches; they do not run."""
        with self.driver.rehearsal(), memory(self.driver, *self.layout) as device:
            self._tensors(device)
            return self.driver.launched()

    def _tensors(self, device: Any) -> list[Any]:
        """What the call returns and, after it, its arguments."""
        writes = written(self.op, self.case)
        given = [
            device.given(a, f"argument {number}", writable=writes[number]) for number, a in enumerate(self.arguments)
        ]
        found = self.library.bind(self.op.overload(self.case.overload))(*given)
        tensors = () if found is None else found if isinstance(found, tuple) else (found,)
        return [*tensors, *(a for a in given if isinstance(a, torch.Tensor))]

    def __str__(self) -> str:
        return f"{self.case}, {self.layout[0]} elements off, {self.layout[1]} between rows"


def fewer_rows(op: Any, case: Any) -> Any:
    """As few that the case moves little, or one."""
    while op.bytes(case) > SEARCHED_BYTES and case.shape[0] > 1:
        case = replace(case, shape=(case.shape[0] // 2, *case.shape[1:]))
    return case


def searched(records: list[Any]) -> list[tuple[Any, Any]]:
    """All small cases, and what is left of large ones, in each type; the cheapest first."""
    found = {f"{op.name} {case}": (op, case) for op in records for case in op.cases}
    for op in records:
        for large, dtype in itertools.product(op.benchmarks, dict.fromkeys(case.dtype for case in op.cases)):
            case = fewer_rows(op, replace(large, dtype=dtype))
            if op.bytes(case) <= SEARCHED_BYTES:
                found[f"{op.name} {case}"] = (op, case)
    return sorted(found.values(), key=lambda pair: pair[0].bytes(pair[1]) + pair[0].flops(pair[1]))


class Runs:
    """What was run, and what was wrong."""

    def __init__(self) -> None:
        self.count = 0
        self.failures: list[str] = []
        self.launched: set[str] = set()

    def run(self, call: Call) -> None:
        self.count += 1
        if said := call.run():
            self.failures.append(f"{call.op.name} {call}: {said}")
            print(self.failures[-1], flush=True)
        self.launched |= call.driver.launched()

    def search(self, kernels: set[str], calls: Callable[[Any, Any], Iterator[Call]], records: list[Any]) -> None:
        """Runs the cheapest call for each of these kernels that did not run yet."""
        for op, case in searched(records):
            # A kernel whose name ends in no type serves every one.
            left = [name for name in kernels - self.launched if name.startswith(op.name)]
            if not any(name.endswith(case.dtype) or not name.endswith(tuple(SIZES)) for name in left):
                continue
            for call in calls(op, case):
                if call.kernels() & kernels - self.launched:
                    self.run(call)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("devices")
    parser.add_argument("--ops", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--all-of", default="", metavar="CODE")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    os.environ |= {"KW_EMULATOR_DEVICES": asked.devices, "KW_EMULATOR_IMAGES": str(asked.folder)}
    torch.set_num_threads(1)
    ops.register()  # of many rows a product is torch's, with what another operator gives
    driver = Driver(asked.folder / "libcuda.so.1")
    libraries = [OnDevice(_library.load(), number) for number in range(len(asked.devices.split(",")))]
    generator = torch.Generator().manual_seed(asked.seed)
    records = [ops.record(name) for name in (asked.ops.split(",") if asked.ops else ops.names())]
    runs = Runs()

    def calls(op: Any, case: Any, on: int | None = None) -> Iterator[Call]:
        arguments = op.make(case, "cpu", generator)
        for library, layout in itertools.product(libraries[:on], LAYOUTS):
            yield Call(driver, library, op, case, arguments, layout)

    for op in records:
        for case in op.cases[:: asked.every]:
            for call in calls(op, case, 1):
                runs.run(call)
    kernels = kernels_of(asked.all_of)
    runs.search(kernels, calls, records)
    print(
        json.dumps(
            {
                "seed": asked.seed,
                "calls": runs.count,
                "failures": runs.failures,
                "left_out": sorted(kernels - runs.launched),
            }
        )
    )


if __name__ == "__main__":
    main()
