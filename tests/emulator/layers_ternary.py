# SPDX-License-Identifier: MIT
"""linear_ternary on an emulated GPU: of any numbers it has the bits of the operators that it is made of.

    python -m tests.emulator.layers_ternary FOLDER DEVICES [--seed N]

Codes that lie near a half are decided by the order in which squares are added, so these numbers are not chosen.
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
from kernelwright.ops.ternary import _codes as codes
from tests.emulator.emulated import Driver, OnDevice, memory

SHAPES = ((1, 40, 64), (3, 33, 1000), (16, 17, 520), (5, 7, 5), (2, 20, 9000), (9, 40, 2560), (20, 16, 4111))
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("devices")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    os.environ |= {"KW_EMULATOR_DEVICES": asked.devices, "KW_EMULATOR_IMAGES": str(asked.folder)}
    torch.set_num_threads(1)
    driver = Driver(asked.folder / "libcuda.so.1")
    torch.manual_seed(asked.seed)
    failed = 0
    bound = [
        ops.record(name).overload("default") for name in ("quantize_rows_int8", "matmul_ternary", "linear_ternary")
    ]
    for number in range(len(asked.devices.split(","))):
        library = OnDevice(_library.load(), number)
        quantize, multiply, linear = (library.bind(overload) for overload in bound)
        for (m, n, k), dtype, norm in itertools.product(SHAPES, DTYPES, (False, True)):
            x, residual = (torch.randn(*shape).to(dtype) for shape in ((m, k), (m, n)))
            weight, eps = (torch.rand(k).to(dtype) + 0.5, 1e-5) if norm else (None, -1.0)
            packed, scale = codes.pack(torch.randint(-1, 2, (n, k))), torch.rand(n)
            with memory(driver, 0, 0) as device:
                x, residual, packed, scale = (
                    device.given(t, f"argument {place}", writable=False)
                    for place, t in enumerate((x, residual, packed, scale))
                )
                weight = weight if weight is None else device.given(weight, "weight", writable=False)
                q, absmax = quantize(x, weight, eps, 1e-5)
                y = multiply(q, packed, absmax, scale, None, n, dtype)
                found = linear(x, packed, scale, None, weight, eps, 1e-5, residual, n)
                same = torch.equal(found, y + residual)
            if not same:
                failed += 1
                print(f"{m} x {n} x {k}, {dtype}, norm {norm}, device {number}: other bits", flush=True)
    print(f"seed {asked.seed}: {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
