# SPDX-License-Identifier: MIT
"""The 4-bit operators beside an installed bitsandbytes, on fresh random inputs; no part of the test suite.

    python tests/ops/four_bit/bitsandbytes_4bit.py compare [DEVICE]     counts what differs; fails where it may not
    python tests/ops/four_bit/bitsandbytes_4bit.py record FILE          inputs with bitsandbytes' results, for test_four_bit.py

Scales, packing and the map of the scales' codes must be equal to the bit, dequantized values too. A code may differ
where the scaled value lies within 2 units in the last place of one of the two libraries' decision points: bitsandbytes
multiplies by a reciprocal in one way on a GPU and in another on the CPU, and its CPU path decides at other points than
its CUDA library, whose points are ours. The two zeros of FP4 count as one code: its CPU path tells them apart the other
way round. Codes of scales are the nearest values' here and in its CUDA library; its CPU library looks them up in a table
of rounded values, and some of its codes are a neighbour's.

On a CPU its float16 values may differ where the product with the scale lies halfway between two: its library for
machines without a GPU rounds such to even, as torch does, the CPU code within its CUDA library away from zero.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import bitsandbytes.functional as peer
import torch

import kernelwright
from kernelwright.ops.four_bit import _shared as four_bit

ULPS = 2
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
COUNTS = (1 << 18, 4096 * 3 + 2, 130, 64)


def midpoints(quant_type: str) -> torch.Tensor:
    values = torch.tensor(sorted(four_bit.VALUES[quant_type]))
    return (values[1:] + values[:-1]) / 2


def undecided(x: torch.Tensor, absmax: torch.Tensor, blocksize: int, quant_type: str) -> torch.Tensor:
    """Elements whose scaled value lies at a decision point, or between those of the two."""
    scaled = x.reshape(-1).double() / absmax.double().repeat_interleave(blocksize)[: x.numel()]
    ours = torch.tensor(four_bit.BOUNDS[quant_type], dtype=torch.float64)
    ours = ours if quant_type == "nf4" else torch.cat((-ours.flip(0), torch.zeros(1), ours))
    theirs, near = midpoints(quant_type).double(), torch.zeros(x.numel(), dtype=torch.bool)
    for a, b in zip(ours.tolist(), theirs.tolist(), strict=True):
        margin = ULPS * 2.0**-23 * max(abs(a), abs(b))
        near |= (scaled >= min(a, b) - margin) & (scaled <= max(a, b) + margin)
    return near


def codes(packed: torch.Tensor, count: int) -> torch.Tensor:
    pairs = packed.reshape(-1).cpu()
    return torch.stack((pairs >> 4, pairs & 15), 1).view(-1)[:count]


def compare_codes(x: torch.Tensor, blocksize: int, quant_type: str) -> tuple[int, int]:
    """How many codes differ, and how many of these must not."""
    packed, absmax = kernelwright.quantize_4bit(x, blocksize, quant_type)
    theirs, state = peer.quantize_4bit(x, blocksize=blocksize, quant_type=quant_type)
    assert torch.equal(absmax, state.absmax), f"{x.dtype}, {blocksize}, {quant_type}: scales differ"
    a, b = codes(packed, x.numel()), codes(theirs, x.numel())
    different = a != b
    if quant_type == "fp4":
        different &= (a % 8 != 0) | (b % 8 != 0)
    near = undecided(x.cpu(), absmax.cpu(), blocksize, quant_type)
    return int(different.sum()), int((different & ~near).sum())


def halves_away(values: torch.Tensor) -> torch.Tensor:
    """float32 values as float16, those halfway between two away from zero."""
    lost = 23 - 10  # bits of a float32's fraction that a float16 has not
    return ((values.view(torch.int32) + (1 << lost - 1)) >> lost << lost).view(torch.float32).half()


def compare_values(x: torch.Tensor, blocksize: int, quant_type: str, *, nested: bool) -> int:
    """How many values differ where they may; fails where one may not."""
    packed, state = peer.quantize_4bit(x, blocksize=blocksize, quant_type=quant_type, compress_statistics=nested)
    absmax = state.absmax
    if nested:
        absmax = four_bit.QuantizedAbsmax(state.absmax, state.state2.absmax, state.state2.code, state.offset)
    found = kernelwright.dequantize_4bit(packed, absmax, x.shape, blocksize, quant_type, x.dtype)
    expected = peer.dequantize_4bit(packed, state)
    what = f"{x.dtype}, {blocksize}, {quant_type}, {x.numel()} elements, nested {nested}"
    different = found != expected
    may = torch.zeros_like(different)
    if x.dtype == torch.float16 and x.device.type == "cpu":
        wide = kernelwright.dequantize_4bit(packed, absmax, x.shape, blocksize, quant_type, torch.float32)
        may = expected == halves_away(wide).view_as(expected)
    wrong = int((different & ~may).sum())
    assert wrong == 0, f"{what}: {wrong} values differ"
    return int(different.sum())


def compare_scales(absmax: torch.Tensor) -> tuple[int, int]:
    """Codes of scales that differ, and codes in all; blocks' scales must be equal."""
    offset, table = absmax.mean(), four_bit.dynamic_map(absmax.device)
    assert torch.equal(table, peer.create_dynamic_map().to(absmax.device)), "the maps differ"
    ours, absmax2 = torch.ops.kernelwright.quantize_4bit.absmax(absmax, offset, table)
    theirs, state = peer.quantize_blockwise(absmax - offset, blocksize=256)
    assert torch.equal(absmax2, state.absmax), "scales of scales differ"
    scaled = (absmax - offset) * (1 / absmax2).repeat_interleave(256)[: absmax.numel()]
    off, off_theirs = ((table[c.long()] - scaled).abs() for c in (ours, theirs))
    assert not (off > off_theirs + 2.0**-22).any(), "bitsandbytes has a nearer value for a scale"
    return int((ours != theirs).sum()), ours.numel()


def compare(device: str) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"bitsandbytes {sys.modules['bitsandbytes'].__version__}, {device}, seed {seed}")
    generator = torch.Generator(device).manual_seed(seed)
    failed = False
    for quant_type in four_bit.VALUES:
        for dtype in DTYPES:
            total, different, wrong, halves = 0, 0, 0, 0
            for blocksize in four_bit.BLOCKSIZES:
                for count in COUNTS:
                    x = torch.randn(count, generator=generator, device=device).to(dtype)
                    found = compare_codes(x, blocksize, quant_type)
                    total, different, wrong = total + count, different + found[0], wrong + found[1]
                    for nested in (False, True):
                        halves += compare_values(x, blocksize, quant_type, nested=nested)
            print(
                f"{quant_type}, {dtype}: {total} codes, {different} differ, {wrong} of them away from decision points; "
                f"of twice as many values {halves} differ, all halfway between two"
            )
            failed |= wrong > 0
    different, total = compare_scales(torch.rand(1 << 20, generator=generator, device=device))
    print(f"codes of scales: {different} of {total} differ, none of ours farther off")
    sys.exit(failed)


def bits(x: torch.Tensor) -> str:
    """The bytes of a tensor, in hexadecimal."""
    return bytes(x.reshape(-1).view(torch.uint8).tolist()).hex()


def recorded(quant_type: str, dtype: torch.dtype, blocksize: int, generator: torch.Generator) -> dict[str, Any]:
    x = torch.randn(blocksize + 10, generator=generator).to(dtype)
    packed, state = peer.quantize_4bit(x, blocksize=blocksize, quant_type=quant_type)
    back = peer.dequantize_4bit(packed, state)
    return {
        "quant_type": quant_type, "dtype": str(dtype).partition(".")[2], "blocksize": blocksize,
        "x": bits(x), "packed": bits(packed), "absmax": bits(state.absmax), "values": bits(back),
    }  # fmt: skip


def record(file: str) -> None:
    generator = torch.Generator().manual_seed(20260)
    cases = [recorded(q, d, b, generator) for q in four_bit.VALUES for d in DTYPES for b in (32, 64)]
    table = {"bitsandbytes": sys.modules["bitsandbytes"].__version__, "map": bits(peer.create_dynamic_map())}
    Path(file).write_text(json.dumps({**table, "cases": cases}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    verb, *rest = sys.argv[1:] or ["compare"]
    if verb == "record":
        record(rest[0])
    else:
        compare(rest[0] if rest else "cpu")
