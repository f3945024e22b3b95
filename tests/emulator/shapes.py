# SPDX-License-Identifier: MIT
"""Products with a 4-bit weight of random shapes on an emulated GPU, against float64.

    python -m tests.emulator.shapes FOLDER DEVICE [--many] [--count N] [--seed N]

FOLDER has the emulating driver and the image of matmul_4bit (build.py); DEVICE is capability/multiprocessors/MiB of L2:
of few multiprocessors blocks have many units, of many some have none. Shapes are such that the kernels for up to 16
rows of x take most of them; with --many those for more than 64.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import sys
from pathlib import Path

import torch

from kernelwright import _library, ops
from kernelwright.ops._record import Case
from tests.emulator.emulated import Driver, OnDevice
from tests.emulator.program import Call

ROWS = (1, 1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17)
WIDTHS = (1, 3, 4, 5, 15, 16, 17, 33, 100, 129, 250, 257, 400, 512, 700, 1025)
DEEP = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 32)  # times 128 of k
MOST_PRODUCTS = 3_000_000
MANY_ROWS = (65, 80, 96, 97, 128, 130, 160, 165, 192, 200, 256, 257, 300, 400)
MANY_WIDTHS = (1, 7, 8, 100, 128, 136, 255, 256, 264, 520, 770)
MANY_DEEP = (1, 2, 3, 4, 5, 7, 8, 12, 14, 19, 24, 33)  # times 32 of k
MOST_OF_MANY = 30_000_000


def random_case(of: random.Random, many: bool) -> Case:
    if many:
        rows, width, depth = of.choice(MANY_ROWS), of.choice(MANY_WIDTHS), 32 * of.choice(MANY_DEEP)
    else:
        rows, width = of.choice(ROWS), of.choice(WIDTHS)
        depth = 128 * of.choice(DEEP) if of.random() < 0.9 else 32 * of.choice((1, 2, 3, 5, 7))
    if rows * width * depth > (MOST_OF_MANY if many else MOST_PRODUCTS):
        width = of.choice((17, 33, 100))
    options = {
        "n": width,
        "blocksize": of.choice((32, 64, 64, 64, 128, 256, 4096)),
        "quant_type": of.choice(("nf4", "fp4")),
        "bias": of.random() < 0.5,
    }
    return Case(of.choice(("default", "nested")), (rows, depth), of.choice(("float16", "bfloat16")), options)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("device")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    os.environ |= {"KW_EMULATOR_DEVICES": asked.device, "KW_EMULATOR_IMAGES": str(asked.folder)}
    torch.set_num_threads(1)
    driver = Driver(asked.folder / "libcuda.so.1")
    library, op = OnDevice(_library.load(), 0), ops.record("matmul_4bit")
    of, generator = random.Random(asked.seed), torch.Generator().manual_seed(asked.seed)
    failed, launched = 0, set[str]()
    for _ in range(asked.count):
        case = random_case(of, asked.many)
        if said := Call(driver, library, op, case, op.make(case, "cpu", generator), (0, 0)).run():
            failed += 1
            print(f"{case}: {said}", flush=True)
        launched |= driver.launched()
    print(f"{asked.count} products, {failed} wrong (seed {asked.seed}); by {', '.join(sorted(launched))}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
