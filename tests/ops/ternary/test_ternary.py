# SPDX-License-Identifier: MIT
"""Ternary operators: formats byte for byte, exact sums whatever the layout, what is refused."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import kernelwright
from kernelwright import errors
from kernelwright.nn import (
    pack_i2_s,
    pack_ternary,
    pack_transformers,
    unpack_i2_s,
    unpack_ternary,
    unpack_transformers,
)

SIZES = [(1, 1), (16, 128), (17, 130), (40, 256), (4, 384), (100, 77)]


def values(n, k, seed=0):
    return torch.randint(-1, 2, (n, k), generator=torch.Generator().manual_seed(seed), dtype=torch.int8)


@pytest.mark.parametrize(("n", "k"), SIZES)
def test_packing_and_back(n, k):
    matrix = values(n, k)
    packed = pack_ternary(matrix)
    assert packed.shape == (-(-n // 16), -(-k // 128) * 512)
    assert torch.equal(unpack_ternary(packed, n, k), matrix)
    assert torch.equal(
        kernelwright.dequantize_ternary(packed, torch.ones(1), n=n, k=k, dtype=torch.float32), matrix.float()
    )


def test_where_a_code_lies():
    """As geometry.h says, code by code."""
    n, k = 33, 260
    matrix = values(n, k)
    packed = pack_ternary(matrix)
    for row, column in ((0, 0), (8, 1), (15, 127), (16, 128), (32, 259), (21, 47)):
        block, lane = packed[row // 16].view(-1, 512)[column // 128], row % 8 * 4 + column % 16 // 4
        word = row % 16 // 8 + column % 32 // 16 * 2
        byte = int(block[lane * 16 + word * 4 + column % 4])
        assert byte >> (column % 128 // 32 * 2) & 3 == int(matrix[row, column]) + 1


@pytest.mark.parametrize(("n", "k"), [(4, 8), (64, 100), (6912, 16)])
def test_transformers_bytes_stay_as_they_are(n, k):
    stored = torch.randint(0, 256, (n // 4, k), dtype=torch.uint8)  # codes of 3 among them
    packed = unpack_transformers(stored, n)
    assert torch.equal(pack_transformers(packed, n, k), stored)
    rows = torch.cat([(stored >> 2 * i & 3).to(torch.int8) - 1 for i in range(4)])
    assert torch.equal(unpack_ternary(packed, n, k), rows)


def test_i2_s_bytes_stay_as_they_are():
    n, k = 12, 256
    stored = torch.randint(0, 256, (n * k // 4 + 32,), dtype=torch.uint8)
    stored[-32:] = 0
    stored[-32:-28] = torch.tensor([0.125]).view(torch.uint8)
    packed, scale = unpack_i2_s(stored, n, k)
    assert scale.item() == 0.125
    assert torch.equal(pack_i2_s(packed, scale, n, k), stored)
    row, column = 3, 128 + 70
    byte = int(stored[(row * k + column) // 128 * 32 + column % 32])
    assert byte >> (6 - column % 128 // 32 * 2) & 3 == int(unpack_ternary(packed, n, k)[row, column]) + 1


@pytest.mark.parametrize("m", [1, 2, 5, 7, 33])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_sums_are_exact(m, n, k):
    x = torch.randint(-128, 128, (m, k), dtype=torch.int8)
    matrix = values(n, k, 1)
    found = kernelwright.matmul_ternary(x, pack_ternary(matrix), n=n, dtype=torch.int32)
    assert torch.equal(found, x.int() @ matrix.int().t())


def test_largest_sums_do_not_overflow():
    """Codes that stand for 2, which only a damaged checkpoint has, against inputs of the largest size."""
    k = 4096
    packed = torch.full((1, k // 128 * 512), 0xFF, dtype=torch.uint8)
    for value in (-128, 127):
        x = torch.full((6, k), value, dtype=torch.int8)
        found = kernelwright.matmul_ternary(x, packed, n=16, dtype=torch.int32)
        assert bool((found == 2 * value * k).all())


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_quantizing_is_that_of_the_paper(per_row, dtype):
    torch.manual_seed(3)
    weight = torch.randn(70, 300).to(dtype)
    packed, scale = kernelwright.quantize_ternary(weight, per_row)
    single = weight.float()
    mean = single.abs().mean(1, keepdim=True) if per_row else single.abs().mean()
    torch.testing.assert_close(scale.reshape(-1), mean.reshape(-1), rtol=1e-5, atol=0)
    expected = (single / mean).round().clamp(-1, 1)
    near = ((single / mean).abs() - 0.5).abs() < 1e-4
    assert torch.equal(unpack_ternary(packed, 70, 300)[~near].float(), expected[~near])


def test_a_weight_of_zeros():
    packed, scale = kernelwright.quantize_ternary(torch.zeros(4, 40))
    assert scale.item() == pytest.approx(1e-5)
    assert not unpack_ternary(packed, 4, 40).any()


def test_the_gated_activation_and_its_derivatives():
    gate, up = (torch.randn(3, 7, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(kernelwright.relu2_gated, (gate, up))
    assert torch.autograd.gradgradcheck(kernelwright.relu2_gated, (gate, up))


def test_what_is_refused():
    x, packed = torch.zeros(2, 40, dtype=torch.int8), pack_ternary(values(5, 40))
    with pytest.raises(errors.InvalidArgument, match="512 bytes, but a weight of 50 x 40"):
        kernelwright.matmul_ternary(x, packed, n=50)
    with pytest.raises(errors.InvalidArgument, match="the sums themselves"):
        kernelwright.matmul_ternary(x, packed, torch.ones(2), n=5, dtype=torch.int32)
    with pytest.raises(errors.InvalidArgument, match="for each row of x"):
        kernelwright.matmul_ternary(x, packed, torch.ones(3), n=5)
    with pytest.raises(errors.InvalidDtype, match=r"x has dtype torch\.float32"):
        kernelwright.matmul_ternary(x.float(), packed, n=5)
    with pytest.raises(errors.InvalidArgument, match="others than -1, 0 and 1"):
        pack_ternary(torch.full((2, 2), 2))
    with pytest.raises(errors.InvalidArgument, match=r"must be torch\.uint8 of 2 rows"):
        unpack_transformers(torch.zeros(3, 4, dtype=torch.uint8), 8)
    with pytest.raises(errors.InvalidArgument, match="multiple of 128"):
        unpack_i2_s(torch.zeros(100, dtype=torch.uint8), 2, 100)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 40, 64), (3, 33, 1000), (16, 100, 2560), (5, 7, 5), (70, 64, 130)])
def test_a_layer_has_the_bits_of_its_operators(m, n, k, dtype):
    x, residual, bias = (torch.randn(*shape).to(dtype) for shape in ((m, k), (m, n), (n,)))
    packed, scale = pack_ternary(values(n, k)), torch.rand(n) + 0.5
    for norm in ({}, {"eps": 1e-5}, {"eps": 1e-5, "weight": torch.rand(k).to(dtype) + 0.5}):
        q, absmax = kernelwright.quantize_rows_int8(x, clamp=1e-5, **norm)
        y = kernelwright.matmul_ternary(q, packed, absmax, scale, bias, n=n, dtype=dtype)
        assert torch.equal(kernelwright.linear_ternary(x, packed, scale, bias, n=n, **norm), y)
        found = kernelwright.linear_ternary(x, packed, scale, bias, n=n, residual=residual, **norm)
        assert torch.equal(found, y + residual)
    wide = torch.randn(m, 2 * k).to(dtype)[:, 1 : k + 1]  # rows that are not aligned
    expected = kernelwright.linear_ternary(wide.contiguous(), packed, scale, n=n)
    assert torch.equal(kernelwright.linear_ternary(wide, packed, scale, n=n), expected)


def test_what_a_layer_refuses():
    x, packed = torch.randn(2, 64), pack_ternary(values(5, 64))
    for words, changes in (
        (r"linear_ternary: eps is -1.0, but must not be negative", {"eps": -1.0}),
        (r"linear_ternary: weight is that of the norm, but eps is -1.0: no norm", {"weight": torch.ones(64)}),
        (r"linear_ternary: clamp is -1.0, but must be 0 or a positive float32", {"clamp": -1.0}),
        (r"linear_ternary: bias has shape \(4,\), but must have \(5,\)", {"bias": torch.ones(4)}),
        (r"linear_ternary: residual has shape \(2, 4\)", {"residual": torch.ones(2, 4)}),
        (r"linear_ternary: residual has dtype torch.float16", {"residual": torch.ones(2, 5).half()}),
    ):
        with pytest.raises(errors.InvalidArgument, match=words):
            kernelwright.linear_ternary(x, packed, n=5, **changes)
