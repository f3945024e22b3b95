# SPDX-License-Identifier: MIT
"""The norms and their derivatives on rows without gaps, of many widths, on an emulated GPU, against float64.

    python -m tests.emulator.widths FOLDER DEVICE [--seed N]

FOLDER has the emulating driver and the images of both norms (build.py); DEVICE is capability/multiprocessors/MiB of L2.
How many lanes a row has, what is left over of them, and what of a row lies beside aligned vectors follows from its
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
    parser.add_argument("device")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    os.environ |= {"KW_EMULATOR_DEVICES": asked.device, "KW_EMULATOR_IMAGES": str(asked.folder)}
    torch.set_num_threads(1)
    driver = Driver(asked.folder / "libcuda.so.1")
    library, generator = OnDevice(_library.load(), 0), torch.Generator().manual_seed(asked.seed)
    failed = 0
    for name in ("layer_norm", "rms_norm"):
        op = ops.record(name)
        for cols, overload in itertools.product(WIDTHS, ("default", "residual", "backward")):
            case = case_of(name, cols, overload)
            if said := Call(driver, library, op, case, op.make(case, "cpu", generator), (0, 0)).run():
                failed += 1
                print(f"{name} {case}: {said}", flush=True)
    print(f"{2 * 3 * len(WIDTHS)} calls, {failed} wrong (seed {asked.seed})")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
