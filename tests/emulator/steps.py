# SPDX-License-Identifier: MIT
"""Steps whose number moves on in the device's memory, on an emulated GPU, beside those launched with their number.

    python -m tests.emulator.steps FOLDER DEVICE [--seed N]

The same two calls, with the same arguments, three times: that is what a CUDA graph replays. Each time parameters and
states have the bits of the next step. The last line is a JSON of what failed and which kernels ran.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import secrets
from pathlib import Path
from typing import Any

import torch

from kernelwright import _library
from kernelwright.ops.optim import _maps
from kernelwright.ops.optim._optimizer import BLOCK, RULES, Step, numbers_maker
from tests.emulator.emulated import Driver, Memory, memory

TYPES = {"float32": 0, "float16": 1, "bfloat16": 2}
COUNTS = (2049, 256, 5, 1)
MANY = (*COUNTS, *[33] * 38)  # more than one launch takes
NUMBERS = Step(1, 0.01, 0.9, 0.99, 0.999, 2.0, 1e-6, 0.1, 0.5)
STEPS, ALIGNED = 3, 64


class Side:
    """Parameters, gradients and states in the device's memory: those of one name are one array."""

    def __init__(self, device: Memory, library: Any, given: list[dict[str, Any]], maps: list[Any]) -> None:
        struct = library.structs["kw_optimizer_tensor"]
        self.rows, self.arrays = (struct * len(given))(), {}
        for row, one in zip(self.rows, given, strict=True):
            row.count = one["param"].numel()
        for name in given[0]:
            parts = [torch.nn.functional.pad(one[name], (0, -one[name].numel() % ALIGNED)) for one in given]
            array = device.given(torch.cat(parts), name, writable=name != "grad")
            self.arrays[name], at = array, array.data_ptr()
            for row, part in zip(self.rows, parts, strict=True):
                setattr(row, name, at)
                at += part.nbytes
        self.maps = [device.given(table, f"map {number}", writable=False) for number, table in enumerate(maps)]

    def call(self, library: Any, name: str, *last: int) -> None:
        tables = [table.data_ptr() for table in self.maps]
        library.call(name, 0, None, ctypes.addressof(self.rows), len(self.rows), *tables, *last)

    def differs(self, other: Side) -> list[str]:
        return [name for name, array in self.arrays.items() if not torch.equal(array, other.arrays[name])]


def drawn(rule: str, dtype: str, coded: bool, counts: tuple[int, ...], generator: Any) -> list[dict[str, Any]]:
    found = []
    for count in counts:
        both = 2 * count if rule == "ademamix" else count
        one = {name: torch.randn(count, generator=generator).to(getattr(torch, dtype)) for name in ("param", "grad")}
        states = [both, count] if RULES[rule] > 1 else [count]
        for number, held in enumerate(states, 1):
            if coded:
                blocks = held // count * -(-count // BLOCK)
                one[f"state{number}"] = torch.randint(128, 256, (held,), generator=generator, dtype=torch.uint8)
                one[f"absmax{number}"] = 0.5 + torch.rand(blocks, generator=generator)
            else:
                one[f"state{number}"] = 0.1 + torch.rand(held, generator=generator)
        found.append(one)
    return found


def compare(driver: Driver, library: Any, rule: str, dtype: str, coded: bool, first: int, generator: Any) -> list[str]:
    """What differs."""
    counts = MANY if rule == "adam" and dtype == "bfloat16" else COUNTS
    given, rate = drawn(rule, dtype, coded, counts, generator), 0.0078125
    maps = [_maps.create_dynamic_map(signed) for signed in ((True, False) if coded else ())]
    function = "kw_optimizer_update_8bit_blockwise" if coded else "kw_optimizer_update_32bit"
    make = numbers_maker(library)
    with memory(driver, 0, 0) as device:
        moved, plain = (Side(device, library, given, maps) for _ in range(2))
        moving = device.given(torch.zeros(8, dtype=torch.int64), "moving", writable=True)
        lr = device.given(torch.tensor([rate], dtype=torch.float64), "lr", writable=False)
        base = make(rule, NUMBERS._replace(step=first))
        for taken in range(STEPS):
            at = moving.data_ptr()
            library.call("kw_optimizer_advance", 0, None, at, lr.data_ptr(), None, None, ctypes.addressof(base))
            moved.call(library, f"{function}_moving", at, ctypes.addressof(base), TYPES[dtype])
            numbers = make(rule, NUMBERS._replace(step=first + taken, lr=rate))
            plain.call(library, f"{function}_many", ctypes.addressof(numbers), TYPES[dtype])
            if wrong := moved.differs(plain):
                return [f"{rule}, {dtype}, {8 if coded else 32} bits, step {first + taken}: {', '.join(wrong)}"]
        return [] if moving[0].item() == STEPS else [f"{rule}: {moving[0].item()} steps were counted"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("devices")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    os.environ |= {"KW_EMULATOR_DEVICES": asked.devices, "KW_EMULATOR_IMAGES": str(asked.folder)}
    torch.set_num_threads(1)
    driver, library = Driver(asked.folder / "libcuda.so.1"), _library.load()
    generator = torch.Generator().manual_seed(asked.seed)
    failures, launched, calls = [], set(), 0
    for rule, dtype, coded in itertools.product(RULES, TYPES, (False, True)):
        for first in (1, 1000):
            failures += compare(driver, library, rule, dtype, coded, first, generator)
            launched |= driver.launched()
            calls += STEPS
    print(json.dumps({"seed": asked.seed, "calls": calls, "failures": failures, "launched": sorted(launched)}))


if __name__ == "__main__":
    main()
