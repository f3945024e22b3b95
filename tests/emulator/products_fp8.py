# SPDX-License-Identifier: MIT
"""matmul_fp8 of random shapes, strides and activations on an emulated GPU, against float64; and deep sums of one sign, of
which tensor cores alone would lose too much.

    python -m tests.emulator.products_fp8 FOLDER DEVICES [--count N] [--seed N]

FOLDER has the emulating driver and the image of matmul_fp8 (build.py); DEVICES are capability/multiprocessors/MiB of L2,
of which each call takes one: of few multiprocessors, which few tiles fill. A wheel of a newer toolkit than the reference
has one kernel more for 8.9/4/1: `./kw build -- --toolkit cu128 --archs 89 --ops matmul_fp8,quantize_rows_fp8`.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from kernelwright import _library, ops
from kernelwright.ops._record import Case
from kernelwright.ops.fp8 import matmul_fp8
from kernelwright.ops.linear._reference import ACTIVATIONS
from tests.emulator.build import kernels_of
from tests.emulator.emulated import Driver, OnDevice
from tests.emulator.program import Call

ROWS = (1, 2, 8, 9, 16, 17, 63, 64, 65, 128, 129, 200, 257)
WIDTHS = (1, 3, 31, 64, 100, 128, 129, 255, 256, 260, 400)
DEEP = (1, 16, 31, 33, 127, 128, 129, 200, 256, 272, 384, 449, 640)
MOST_PRODUCTS = 16_000_000
CODES = {"9.0": "sm_90a", "8.0": "sm_80", "8.9": "sm_89"}
# m, n, k, alignment, and the kernels of which one must be there.
FITS: tuple[tuple[int, int, int, int, set[str]], ...] = (
    (1, 4096, 4096, 16, {"few_1"}), (16, 4096, 4096, 16, {"few_2"}), (17, 4096, 4096, 16, {"tile", "single_256"}),
    (16, 4096, 4104, 16, {"single_256"}), (16, 4096, 4096, 8, set()), (300, 4096, 4096, 1, set()),
    (1, 4096, 8, 16, {"any"}), (64, 64, 128, 1, {"any"}),
)  # fmt: skip


def wrong_fits(library: Any, kernels: set[str]) -> Iterator[str]:
    """Of few rows, large ones, and what is so small that the general kernel is the one."""
    for *numbers, able in FITS:
        yes = ctypes.c_int32(7)
        library.call("kw_matmul_fp8_fits", 0, *numbers, ctypes.addressof(yes))
        if yes.value != bool(able & kernels):
            yield f"kw_matmul_fp8_fits of {numbers} is {yes.value} where there are {sorted(kernels)}"


def random_call(of: random.Random) -> tuple[Case, tuple[int, int]]:
    """A case, and a layout, of which most have rows that begin on 16 bytes."""
    rows, width, depth = of.choice(ROWS), of.choice(WIDTHS), of.choice(DEEP)
    while rows * width * depth > MOST_PRODUCTS:
        rows, width = of.choice(ROWS), of.choice(WIDTHS)
    options = {
        "n": width, "scaled": True, "bias": of.choice((None, "float32", "bfloat16")), "activation": of.choice(ACTIVATIONS)
    }  # fmt: skip
    case = Case("default", (rows, depth), of.choice(("float16", "bfloat16", "float32")), options)
    if of.random() < 0.2:
        return case, (of.choice((0, 1)), of.choice((0, 5)))
    return case, (16 * of.choice((0, 1)), -depth % 16 + 16 * of.choice((0, 1)))


def deep(op: Any, generator: torch.Generator) -> tuple[Case, tuple[Any, ...]]:
    """Sums of 4096 positive products."""
    options = {"n": 40, "scaled": False, "bias": None, "activation": "none"}
    case = Case("default", (3, 4096), "float32", options)
    x, weight, *rest = op.make(case, "cpu", generator)
    positive = [(codes.view(torch.uint8) & 0x7F).view(codes.dtype) for codes in (x, weight)]
    return case, (*positive, *rest)


def drawn(op: Any, of: random.Random, generator: torch.Generator) -> Iterator[tuple[Case, Any, tuple[Any, ...]]]:
    """The deep sums, then random calls without end: as many as are asked for, and until each kernel was launched."""
    case, arguments = deep(op, generator)
    yield case, (0, 0), arguments
    while True:
        case, layout = random_call(of)
        yield case, layout, op.make(case, "cpu", generator)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("devices")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    os.environ |= {"KW_EMULATOR_DEVICES": asked.devices, "KW_EMULATOR_IMAGES": str(asked.folder)}
    torch.set_num_threads(1)
    driver = Driver(asked.folder / "libcuda.so.1")
    libraries = [OnDevice(_library.load(), number) for number in range(len(asked.devices.split(",")))]
    of, generator = random.Random(asked.seed), torch.Generator().manual_seed(asked.seed)
    op = ops.record("matmul_fp8")
    kernels = kernels_of(CODES[asked.devices.partition("/")[0]])
    expected = {name for name in kernels if name.startswith("matmul_fp8_")}
    count, failed, launched = 0, 0, set[str]()
    for words in wrong_fits(libraries[0], {name.removeprefix("matmul_fp8_") for name in expected}):
        failed += 1
        print(words)
    for case, layout, arguments in drawn(op, of, generator):
        if count >= asked.count and (expected <= launched or count >= 10 * asked.count):
            break
        # Also where torch would be faster on a GPU.
        with patch.object(matmul_fp8, "_decider", lambda *_: lambda *_: True):
            said = Call(driver, of.choice(libraries), op, case, arguments, layout).run()
        if said:
            failed += 1
            print(f"{case}, {layout}: {said}", flush=True)
        launched |= driver.launched()
        count += 1
    missing = expected - launched
    print(f"{count} products, {failed} wrong, not launched: {sorted(missing)} (seed {asked.seed})")
    sys.exit(failed > 0 or bool(missing))


if __name__ == "__main__":
    main()
