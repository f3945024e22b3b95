# SPDX-License-Identifier: MIT
"""Block-wise 8 bits: bitsandbytes' codes on ties and edges, its maps, every instruction set, what is refused."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed")  # kernelwright.optim is made of torch's classes

import kernelwright
from kernelwright import _library, errors, ops
from kernelwright.optim import create_dynamic_map, create_fp8_map, create_linear_map, create_normal_map
from tests.python.tensors import torch

pytestmark = pytest.mark.torch

OP = ops.record("quantize_blockwise")
MAPS = {
    "dynamic": create_dynamic_map,
    "unsigned": lambda: create_dynamic_map(signed=False),
    "linear": create_linear_map,
    "linear, unsigned": lambda: create_linear_map(signed=False),
    "linear of 5 bits": lambda: create_linear_map(total_bits=5),
    "fp8": create_fp8_map,
    "fp4": lambda: create_fp8_map(True, 2, 1, 4),
    "normal": create_normal_map,
}
each_map = pytest.mark.parametrize("kind", MAPS)


@pytest.fixture(params=["scalar", "avx2", "avx512", "neon"])
def isa(request):
    library = _library.load()
    try:
        library.call("kw_set_option", b"cpu_isa", request.param.encode())
    except errors.KernelwrightError:
        pytest.skip(f"this CPU or this build has no {request.param}")
    yield
    library.call("kw_set_option", b"cpu_isa", b"")


def searched(table, scaled):
    """What bitsandbytes' CUDA library does with one scaled value: a search that ends between an even code's neighbours."""
    pivot, low, high = 127, 0, 255
    for step in (64, 32, 16, 8, 4, 2, 1):
        if scaled > table[pivot]:
            low, pivot = pivot, pivot + step
        else:
            high, pivot = pivot, pivot - step
    if scaled > table[pivot]:
        return high if scaled > (table[high] + table[pivot]) * 0.5 else pivot
    return low if scaled < (table[low] + table[pivot]) * 0.5 else pivot


def edges(table):
    """Values of a map, the middles between them, and the neighbours of all of these."""
    middles = (table[:-1] + table[1:]) * 0.5
    both = torch.cat((table, middles, torch.tensor([0.0, 1e-9, 2.0**-24, 1e-30])))
    up, down = (torch.nextafter(both, torch.full_like(both, end)) for end in (2.0, -2.0))
    return torch.cat((both, -both, up, down)).clamp(-1, 1)


@each_map
@pytest.mark.parametrize("repeat", [1, 30])
def test_codes_are_those_of_bitsandbytes(kind, repeat, isa):
    """To the bit, also on a tie. A 1 in each block keeps values as they are; many values go by a table, few do not."""
    table, values = MAPS[kind](), edges(MAPS[kind]())
    blocks = torch.nn.functional.pad(values, (0, -values.numel() % 31)).view(-1, 31)
    x = torch.cat((torch.ones(blocks.shape[0], 1), blocks), 1)
    codes, absmax = kernelwright.quantize_blockwise(x.repeat(repeat, 1), table, 32)
    # A GPU takes subnormal numbers for 0, and so does the bound of what may be scaled.
    expected = [searched(table, v) for v in torch.where(x.abs() < 2.0**-126, 0.0, x).reshape(-1)]
    assert codes.reshape(repeat, -1).eq(torch.tensor(expected, dtype=torch.uint8)).all()
    assert absmax.eq(1).all()


@each_map
@pytest.mark.parametrize("blocksize", [64, 256, 4096])
def test_a_look_up_finds_what_a_search_finds(kind, blocksize, seed, isa):
    """Of any bits, NaN and infinity among them, and of blocks that end anywhere: a few blocks at a time are searched."""
    table, make = MAPS[kind](), torch.Generator().manual_seed(seed)
    scaled = torch.randn(40003, generator=make) * torch.exp2(torch.randint(-40, 1, (40003,), generator=make).float())
    middles = (table[:-1] + table[1:]) * 0.5
    scaled[: 3 * middles.numel()] = torch.cat((middles, -middles, torch.nextafter(middles, torch.tensor(2.0))))
    scaled[::4096] = 1.0
    x = torch.cat(
        (scaled, torch.randint(-(2**31), 2**31, (9001,), generator=make, dtype=torch.int32).view(torch.float32))
    )
    codes, absmax = kernelwright.quantize_blockwise(x, table, blocksize)
    pieces = [kernelwright.quantize_blockwise(piece, table, blocksize) for piece in x.split(8192)]
    assert torch.equal(codes, torch.cat([piece[0] for piece in pieces]))
    assert torch.equal(absmax.view(torch.int32), torch.cat([piece[1] for piece in pieces]).view(torch.int32))


def test_the_default_is_the_dynamic_map():
    x = torch.randn(5, 1000)
    codes, absmax = kernelwright.quantize_blockwise(x)
    again, same = kernelwright.quantize_blockwise(x, create_dynamic_map(), 4096)
    assert torch.equal(codes, again)
    assert torch.equal(absmax, same)
    found = kernelwright.dequantize_blockwise(codes, absmax)
    assert found.dtype is torch.float32
    assert (found - x).abs().max() < 0.01 * x.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_there_and_back(dtype, isa):
    """What was made of codes has the same codes again, where scales are powers of two."""
    table = create_dynamic_map()
    codes = torch.randint(0, 256, (97, 256), dtype=torch.uint8)
    codes[:, 0] = 255
    x = kernelwright.dequantize_blockwise(codes, torch.full((97,), 0.5), table, 256, torch.float32)
    assert torch.equal(x, table[codes.long()] * 0.5)
    found, absmax = kernelwright.quantize_blockwise(x, table, 256)
    assert torch.equal(found, codes)
    assert absmax.eq(0.5).all()
    narrow = kernelwright.dequantize_blockwise(codes, torch.full((97,), 0.5), table, 256, dtype)
    assert torch.equal(narrow, x.to(dtype))


def test_blocks_that_nothing_can_be_scaled_by():
    x = torch.zeros(4, 64)
    x[1], x[2, 5], x[3, 7] = 1e-39, float("nan"), float("inf")
    codes, absmax = kernelwright.quantize_blockwise(x, blocksize=64)
    assert codes[:2].eq(0).all()
    assert codes[2].eq(0).all()
    assert absmax[:2].eq(0).all()
    assert absmax[2].isnan()
    assert absmax[3].isinf()


@pytest.mark.parametrize(
    ("signed", "bits", "total"), [(True, 7, 8), (False, 7, 8), (True, 3, 4), (True, 5, 8), (True, 2, 6)]
)
def test_dynamic_maps(signed, bits, total):
    table = create_dynamic_map(signed, bits, total)
    assert table.shape == (256,)
    assert torch.equal(table, table.sort().values)
    assert table[-1] == 1
    assert (table == 0).sum() == 1 + 256 - 2**total
    assert (table < 0).any() == signed


def test_maps_that_cannot_be():
    with pytest.raises(errors.InvalidArgument, match="max_exponent_bits must be below total_bits"):
        create_dynamic_map(False, max_exponent_bits=8, total_bits=4)
    with pytest.raises(errors.InvalidArgument, match="create_fp8_map: 5 bits of exponent, 3 of precision"):
        create_fp8_map(True, 5, 3, 8)
    with pytest.raises(errors.InvalidArgument, match="create_linear_map: total_bits is 9"):
        create_linear_map(total_bits=9)


REFUSALS = [
    ("an odd block", lambda: kernelwright.quantize_blockwise(torch.ones(8), blocksize=48), errors.InvalidArgument, "blocksize is 48, but must be one of 32, 64"),
    ("integers", lambda: kernelwright.quantize_blockwise(torch.ones(8, dtype=torch.int32)), errors.InvalidDtype, "x has dtype torch.int32"),
    ("a short map", lambda: kernelwright.quantize_blockwise(torch.ones(8), torch.ones(16)), errors.InvalidArgument, "map has 16 elements, but must have 256"),
    ("few scales", lambda: kernelwright.dequantize_blockwise(torch.ones(8, dtype=torch.uint8), torch.ones(3), blocksize=64), errors.InvalidArgument, "absmax has 3 elements, but must have 1"),
    ("codes of floats", lambda: kernelwright.dequantize_blockwise(torch.ones(8), torch.ones(1)), errors.InvalidDtype, "codes has dtype torch.float32, but must have torch.uint8"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
