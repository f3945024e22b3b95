# SPDX-License-Identifier: MIT
"""The norms and their derivatives on rows without gaps, of many widths, on an emulated GPU, against float64.

    python -m tests.emulator.widths FOLDER DEVICE,SMALL [--seed N]

FOLDER has the emulating driver and the images of both norms (build.py); a device is capability/multiprocessors/MiB of
L2. SMALL has so little of it that some rows are read twice, which takes a kernel of its own. How many lanes a row has, what is left over of them, and what of a row lies beside aligned vectors follows from its
width, of which the records' cases have few.
"""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import sys
from pathlib import Path

import torch

from kernelwright import _library, ops
from kernelwright.ops._record import Case
from tests.emulator.emulated import Driver, OnDevice
from tests.emulator.program import Call

WIDTHS = (*range(3, 340, 5), *range(361, 1100, 37), 2050, 4097)
TYPES = ("bfloat16", "float16", "float32")
ROWS = 131  # several of each warp of few multiprocessors, and a last run that is not whole
# Of bfloat16 on SMALL: rows that end in the first half of what a block reads at once, in the second, and with it.
STREAMED = ((26, 8192 + 64), (13, 16384 + 64), (12, 24576 - 64), (40, 4096))


def case_of(name: str, cols: int, overload: str) -> Case:
    options = {"weight": "same"}
    if name == "layer_norm":
        options |= {"bias": "same"}
    if overload == "backward":
        options |= {"sum": cols % 3 == 1, "wanted": "wb" if name == "layer_norm" else "w"}
    return Case(overload, (ROWS, cols), TYPES[cols % len(TYPES)], options)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("devices")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    os.environ |= {"KW_EMULATOR_DEVICES": asked.devices, "KW_EMULATOR_IMAGES": str(asked.folder)}
    torch.set_num_threads(1)
    driver = Driver(asked.folder / "libcuda.so.1")
    library, small = (OnDevice(_library.load(), number) for number in range(2))
    generator = torch.Generator().manual_seed(asked.seed)
    failed, streamed = 0, 0
    for shape in STREAMED:
        op, case = ops.record("rms_norm"), Case("default", shape, "bfloat16", {"weight": "same"})
        said = Call(driver, small, op, case, op.make(case, "cpu", generator), (0, 0)).run()
        streamed += "rms_norm_stream_bfloat16" in driver.launched()
        failed += bool(said)
        if said:
            print(f"rms_norm {case}: {said}", flush=True)
    if streamed != len(STREAMED):
        sys.exit(f"{streamed} of {len(STREAMED)} shapes took the kernel that reads rows twice; choose others")
    for name in ("layer_norm", "rms_norm"):
        op = ops.record(name)
        for cols, overload in itertools.product(WIDTHS, ("default", "residual", "backward")):
            case = case_of(name, cols, overload)
            if said := Call(driver, library, op, case, op.make(case, "cpu", generator), (0, 0)).run():
                failed += 1
                print(f"{name} {case}: {said}", flush=True)
    print(f"{2 * 3 * len(WIDTHS) + len(STREAMED)} calls, {failed} wrong (seed {asked.seed})")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
