# SPDX-License-Identifier: MIT
"""linear and gated_linear with activations, of random shapes and strides that its kernels for tensor cores take, on an emulated GPU,
against float64.

    python -m tests.emulator.layers FOLDER DEVICES [--count N] [--seed N]

FOLDER has the emulating driver and the image of linear (build.py); DEVICES are capability/multiprocessors/MiB of L2, of
which each call takes one: of few multiprocessors, which few tiles fill.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import sys
from pathlib import Path
from unittest.mock import patch

import torch

from kernelwright import _library, ops
from kernelwright.ops._record import Case
from kernelwright.ops.linear import _launch
from tests.emulator.emulated import Driver, OnDevice
from tests.emulator.program import Call

ROWS = (1, 2, 63, 64, 65, 127, 128, 129, 200, 256, 257, 300, 385, 520)
WIDTHS = (1, 3, 8, 31, 64, 100, 127, 128, 129, 132, 255, 256, 260, 400)
DEEP = (129, 136, 192, 200, 255, 256, 257, 320, 384, 449, 512, 640, 777, 1000)
ACTIVATIONS = ("relu", "squared_relu", "silu", "gelu", "gelu_tanh")
MOST_PRODUCTS = 30_000_000
KINDS = {"9": ("single", "pair"), "8": ("warps",)}  # by the capability


def random_call(of: random.Random) -> tuple[Case, tuple[int, int]]:
    """A case, and a layout in which rows begin on 16 bytes."""
    rows, width, depth = of.choice(ROWS), of.choice(WIDTHS), of.choice(DEEP)
    while rows * width * depth > MOST_PRODUCTS:
        rows, width = of.choice(ROWS), of.choice(WIDTHS)
    options = {"n": width, "activation": of.choice(ACTIVATIONS), "bias": of.random() < 0.5}
    gap = -depth % 8 + 8 * of.choice((0, 0, 1, 3))
    return Case("default", (rows, depth), of.choice(("float16", "bfloat16")), options), (8 * of.choice((0, 1)), gap)


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
    failed, launched = 0, set[str]()
    for _ in range(asked.count):
        case, layout = random_call(of)
        library, op = of.choice(libraries), ops.record(of.choice(("linear", "gated_linear")))
        # Also where torch would be faster on a GPU.
        with patch.object(_launch, "_decider", lambda *_: lambda *_: True):
            said = Call(driver, library, op, case, op.make(case, "cpu", generator), layout).run()
        if said:
            failed += 1
            print(f"{op.name}, {case}, {layout}: {said}", flush=True)
        launched |= driver.launched()
    missing = {
        f"{op}_{kind}_{dtype}"
        for op in ("linear", "gated_linear")
        for kind in KINDS[asked.devices[0]]
        for dtype in ("float16", "bfloat16")
    } - launched
    print(f"{asked.count} layers, {failed} wrong, not launched: {sorted(missing)} (seed {asked.seed})")
    sys.exit(failed > 0 or bool(missing))


if __name__ == "__main__":
    main()
