# SPDX-License-Identifier: MIT
"""The kernels of matmul_fp8 that need a newer toolkit than the wheel's, launched by themselves: products by warps of e4m3
(the feature fp8_mma), and the other way of decoding it, of random shapes, against float64. Each four times, in all the
emulator's orders, and with the same bits.

    python -m tests.emulator.tiles_fp8 FOLDER [--count N] [--seed N]

FOLDER has the emulating driver (build.py); the image goes there, too.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import secrets
import sys
from pathlib import Path
from typing import Any

import torch

from kernelwright import ops
from kernelwright.ops._record import Case
from kernelwright.ops.fp8 import _matmul as definition
from kernelwright.ops.linear._reference import ACTIVATIONS
from tests.emulator import build
from tests.emulator.emulated import Driver, memory
from tests.emulator.products_fp8 import deep
from tests.tree import ROOT

TILE, FEW, STAGES, PITCH = 128, 16, 3, 80  # as csrc/ops/int8/matmul_params.h has them
SHARED = 2 * STAGES * TILE * PITCH
THREADS = 256
KERNELS = {  # by code
    "sm_89": ("matmul_fp8_tile", "matmul_fp8_few_1", "matmul_fp8_few_2", "matmul_fp8_any"),
    "sm_80": ("matmul_fp8_few_1", "matmul_fp8_few_2"),
}
SIZES = (1, 3, 8, 9, 16, 63, 64, 65, 127, 128, 130, 260)
DEEP = (16, 32, 48, 64, 80, 128, 144, 272, 1040)
TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class Result(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("y", "x_scale", "weight_scale", "bias")),
        *((name, ctypes.c_longlong) for name in ("y_pitch", "m", "n")),
        ("factor", ctypes.c_float), *((name, ctypes.c_int) for name in ("dtype", "bias_dtype", "vectors")),
    )  # fmt: skip


class Params(ctypes.Structure):
    """KwMatmulAnyParams."""

    _fields_ = (
        ("to", Result), ("x", ctypes.c_void_p), ("weight", ctypes.c_void_p),
        *((name, ctypes.c_longlong) for name in ("x_pitch", "weight_pitch", "k")),
        *((name, ctypes.c_uint) for name in ("columns", "group", "rows")), ("activation", ctypes.c_int),
    )  # fmt: skip


def address(tensor: Any) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def parameters(given: list[Any], y: Any, tile: tuple[int, int]) -> Params:
    x, weight, x_scale, weight_scale, bias, activation, dtype = given
    (m, k), n = x.shape, weight.shape[0]
    to = Result(
        y.data_ptr(), address(x_scale), address(weight_scale), address(bias), y.stride(0) * y.element_size(), m, n, 1.0,
        TYPES[dtype], 0 if bias is None else TYPES[bias.dtype], y.data_ptr() % 16 == 0 and n % 4 == 0,
    )  # fmt: skip
    return Params(
        to, x.data_ptr(), weight.data_ptr(), x.stride(0) if m > 1 else k, weight.stride(0) if n > 1 else k, k,
        -(-n // tile[1]), 2, -(-m // tile[0]), ACTIVATIONS.index(activation),
    )  # fmt: skip


def launched(driver: Driver, image: Path, kernel: str, arguments: tuple[Any, ...], gap: int, mode: int) -> Any:
    """What the kernel gives, or what is wrong with it in words."""
    driver.schedule_mode(mode)
    with memory(driver, 0, gap) as device:
        given = [device.given(a, f"argument {number}", writable=False) for number, a in enumerate(arguments)]
        y = device.empty((arguments[0].shape[0], arguments[1].shape[0]), dtype=arguments[-1])
        few = "few" in kernel
        side = 64 if kernel.endswith("any") else TILE
        params = parameters(given, y, (FEW, FEW) if few else (side, side))
        blocks = min(params.columns, 3) if few else params.columns * params.rows
        shared = SHARED if kernel.endswith("tile") else 0
        said = driver.run(image, kernel, params, threads=THREADS, blocks=blocks, shared=shared)
        return said or y.clone()


def wrong(driver: Driver, image: Path, kernel: str, case: Case, arguments: tuple[Any, ...], gap: int) -> str | None:
    found = [launched(driver, image, kernel, arguments, gap, mode) for mode in range(4)]
    for one in found:
        if isinstance(one, str):
            return one
        if not torch.equal(one.view(torch.uint8), found[0].view(torch.uint8)):
            return "other bits in another order"
    reference = definition.matmul(*arguments[:-1], torch.float64)
    exact = [a.double() if isinstance(a, torch.Tensor) else a for a in arguments]
    [bound] = ops.record("matmul_fp8").allowed(case.overload, exact, [reference], [arguments[-1]])
    share = ((found[0].double() - reference).abs() / bound.clamp(min=1e-300)).max().item()
    return None if share <= 1.0 else f"{share:.2f} times the error allowed"


def drawn(of: random.Random, kernel: str) -> tuple[Case, int]:
    rows = {"matmul_fp8_few_1": 8, "matmul_fp8_few_2": 16}.get(kernel, 300)
    m, n, k = of.choice([m for m in SIZES if m <= rows]), of.choice(SIZES), of.choice(DEEP)
    while m * n * k > 4_000_000:
        n, k = of.choice(SIZES), of.choice(DEEP)
    options = {
        "n": n, "scaled": True, "bias": of.choice((None, "float32", "bfloat16")), "activation": of.choice(ACTIVATIONS)
    }  # fmt: skip
    return Case("default", (m, k), of.choice(("float16", "bfloat16", "float32")), options), of.choice((0, 16, 48))


def every_code(driver: Driver, image: Path, kernel: str) -> str | None:
    """Each of the 256 times one, at a place of its own: numbers to the bit, and NaN."""
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    weight = torch.zeros(256, 16, dtype=torch.uint8)
    weight[torch.arange(256), torch.arange(256) % 16] = codes
    x = torch.full((1, 16), 0x38, dtype=torch.uint8)  # 1
    two = [t.view(torch.float8_e4m3fn) for t in (x, weight)]
    found = launched(driver, image, kernel, (*two, None, None, None, "none", torch.float32), 0, 0)
    if isinstance(found, str):
        return found
    expected = codes.view(torch.float8_e4m3fn).float()
    return None if torch.equal(found[0].nan_to_num(7.0), expected.nan_to_num(7.0)) else "other numbers of codes"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    file, folder = asked.folder / "libcuda.so.1", asked.folder / "tiles_fp8"  # which has images of whole wheels
    driver = Driver(file)
    of, generator = random.Random(asked.seed), torch.Generator().manual_seed(asked.seed)
    op, count, failed = ops.record("matmul_fp8"), 0, list[str]()
    for code, names in KERNELS.items():
        kernels = {ROOT / "csrc" / "ops" / "fp8" / "matmul_fp8.cu": dict.fromkeys(names, THREADS)}
        image = build.build_image(code, kernels, build.headers(), file, folder)
        for name in names:
            failed += [f"{name} for {code}: {said}" for said in (every_code(driver, image, name),) if said]
            for number in range(asked.count):
                case, gap = drawn(of, name)
                arguments = op.make(case, "cpu", generator)
                if number == 0:
                    case, arguments = deep(op, generator)
                count += 1
                if said := wrong(driver, image, name, case, arguments, gap):
                    failed.append(f"{name} for {code}, {case}, {gap} between rows: {said}")
    print(*failed, f"{count} products, {len(failed)} wrong (seed {asked.seed})", sep="\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
