# SPDX-License-Identifier: MIT
"""A weight of several parts, each with an offset of its own: what layers are together whose scales are quantized too."""

from __future__ import annotations

import pytest

from kernelwright import errors
from tests.python.tensors import torch

pytestmark = pytest.mark.torch


REFUSED = errors.InvalidArgument, RuntimeError  # by Python; in C and within torch.compile


@pytest.fixture
def op():
    from kernelwright import ops

    ops.register()
    return torch.ops.kernelwright


def made(n, k, parts, blocksize=64, device="cpu"):
    """packed, and the scales with so many offsets, all random."""
    count = n * k // blocksize
    packed = torch.randint(0, 256, (n * k // 2,), dtype=torch.uint8, device=device)
    codes = torch.randint(0, 256, (count,), dtype=torch.uint8, device=device)
    table = torch.linspace(-1, 1, 256, device=device)
    offset = 1 + torch.arange(parts, device=device) + torch.rand(parts, device=device)
    return packed, (codes, torch.rand(-(-count // 256), device=device), table, offset)


def part(packed, scales, parts, which):
    """One of them as a weight of its own."""
    codes, absmax2, table, offset = scales
    cut = [tensor.chunk(parts)[which].clone() for tensor in (packed, codes, absmax2)]
    return cut[0], (*cut[1:], table, offset[which])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("m", "n", "k", "parts"), [(1, 24, 4096, 6), (5, 512, 192, 2), (300, 192, 1024, 3)])
def test_parts_are_the_products_of_their_own(op, m, n, k, parts, dtype, device):
    packed, scales = made(n, k, parts, device=device)
    x, bias = torch.randn(m, k, device=device).to(dtype), torch.randn(n, device=device).to(dtype)
    y = op.matmul_4bit.nested(x, packed, *scales, bias, n, 64, "nf4")
    each = [
        op.matmul_4bit.nested(x, one, *of_one, bias.chunk(parts)[which].clone(), n // parts, 64, "nf4")
        for which in range(parts)
        for one, of_one in (part(packed, scales, parts, which),)
    ]
    if device == "cpu":
        assert torch.equal(y, torch.cat(each, -1))
    else:  # another number of rows may be divided among blocks in another way
        torch.testing.assert_close(y, torch.cat(each, -1), rtol=1e-2, atol=1e-2 * float(y.abs().max()))
    dense = op.dequantize_4bit.nested(packed, *scales, (n, k), 64, "nf4", dtype)
    apart = [
        op.dequantize_4bit.nested(one, *of_one, (n // parts, k), 64, "nf4", dtype)
        for which in range(parts)
        for one, of_one in (part(packed, scales, parts, which),)
    ]
    assert torch.equal(dense, torch.cat(apart))


def test_a_gradient_passes_each_part(op, device):
    packed, scales = made(12, 4096, 3, device=device)
    x = torch.randn(2, 4096, device=device, requires_grad=True)
    op.matmul_4bit.nested(x, packed, *scales, None, 12, 64, "fp4").sum().backward()
    dense = op.dequantize_4bit.nested(packed, *scales, (12, 4096), 64, "fp4", torch.float32)
    torch.testing.assert_close(x.grad, dense.sum(0).expand(2, -1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("n", "k", "parts"),
    [
        (10, 4096, 3),  # no whole rows
        (8, 2048, 2),  # 128 blocks
        (256, 4096, 64),  # too many
        (4, 4096, 0),
    ],
)
def test_what_are_no_parts(op, n, k, parts, device):
    packed, scales = made(n, k, parts, device=device)
    x = torch.ones(1, k, device=device)
    said = rf"offset has {parts} elements, but must have 1: what was taken from all scales, or for each of at most 63 equal parts"
    for compute in (op.matmul_4bit.nested, torch.compile(op.matmul_4bit.nested, backend="eager", dynamic=False)):
        with pytest.raises(REFUSED, match=said):
            compute(x, packed, *scales, None, n, 64, "nf4")
    if parts != 3:  # a tensor that is dequantized alone has no rows
        with pytest.raises(errors.InvalidArgument, match=said):
            op.dequantize_4bit.nested(packed, *scales, (n, k), 64, "nf4", torch.float32)


def test_experts_have_one_offset(op, device):
    packed, scales = made(2 * 8, 4096, 2, device=device)
    x, ends = torch.ones(4, 4096, device=device), torch.tensor([1, 4], dtype=torch.int32, device=device)
    with pytest.raises(REFUSED, match="offset has 2 elements, but must have 1"):
        op.matmul_4bit_grouped.nested(x, packed, *scales, ends, 8, 64, "nf4")
