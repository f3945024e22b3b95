# SPDX-License-Identifier: MIT
"""Products of 8-bit floats beyond their records: codes to the bit, rows that are no numbers, what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import kernelwright
from kernelwright.errors import InvalidArgument, InvalidDtype

pytestmark = pytest.mark.torch

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
CODES = torch.float8_e4m3fn


@pytest.fixture
def x(seed, device):
    return torch.randn(9, 64, generator=torch.Generator(device).manual_seed(seed), device=device)


def by_torch(x):
    """What the docs say. Divided by a tensor: by a number, torch on a GPU multiplies with its reciprocal."""
    wide = x.float()
    scale = wide.abs().amax(-1) / torch.tensor(448.0, device=x.device)
    scale = torch.where(scale < torch.finfo(torch.float32).tiny, 1.0, scale)
    return (wide / scale.unsqueeze(-1)).to(CODES), scale


def same(codes, expected):
    """Bit by bit; a NaN may have a sign in torch."""
    mine, theirs = codes.view(torch.uint8), expected.view(torch.uint8)
    return torch.equal(torch.where(expected.float().isnan(), 0x7F, theirs), mine)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (3, 129), (40, 1024), (2, 3, 5000), (2, 20001)])
def test_codes_are_torchs_to_the_bit(shape, dtype, seed, device):
    make = torch.Generator(device).manual_seed(seed)
    x = torch.randn(shape, generator=make, device=device)
    x = (x * 2.0 ** torch.randint(-14, 5, (*shape[:-1], 1), generator=make, device=device)).to(dtype)
    codes, scale = kernelwright.quantize_rows_fp8(x)
    expected, by = by_torch(x)
    assert torch.equal(scale, by)
    assert codes.dtype is CODES
    assert same(codes, expected)


def test_every_float16_is_rounded_as_torch_rounds(device):
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.float16).to(device)
    for largest in (448.0, 3.0, 60000.0, 0.0117):
        row = torch.cat([torch.tensor([largest], device=device, dtype=every.dtype), every[every.abs() <= largest]])
        codes, scale = kernelwright.quantize_rows_fp8(row)
        expected, by = by_torch(row)
        assert torch.equal(scale, by)
        assert same(codes, expected), largest


def test_ties_are_rounded_to_even(device):
    row = torch.tensor([448.0, 17.0, 19.0, -17.0, 2.0**-10, 3 * 2.0**-10, -(2.0**-10), -0.0], device=device)
    codes, scale = kernelwright.quantize_rows_fp8(row)
    assert scale.item() == 1.0
    assert codes.float().tolist() == [448.0, 16.0, 20.0, -16.0, 0.0, 2.0**-8, -0.0, -0.0]
    assert codes.view(torch.uint8)[-2:].tolist() == [0x80, 0x80]


@pytest.mark.parametrize("size", [1e-44, 1e-38, 6e-36, 1e-30, 1e-22, 1e-18, 1e30, 3e38])
def test_rows_of_every_size(x, size):
    row = x.clamp(-1, 1) * size
    codes, scale = kernelwright.quantize_rows_fp8(row)
    expected, by = by_torch(row)
    assert torch.equal(scale, by)
    assert same(codes, expected)


def test_rows_without_a_usual_scale(x):
    x[1] = 0
    x[2, 5], x[4, 7], x[5, 0] = torch.nan, torch.inf, -torch.inf
    codes, scale = kernelwright.quantize_rows_fp8(x)
    numbers = codes.float()
    assert scale[1] == 1
    assert not numbers[1].any()
    assert scale[2].isnan()
    assert numbers[2].isnan().all()
    assert scale[[4, 5]].isinf().all()
    for row, column in ((4, 7), (5, 0)):
        assert numbers[row].isnan().nonzero().view(-1).tolist() == [column]
        assert not numbers[row].nan_to_num().any()
    assert same(codes, by_torch(x)[0])
    y = kernelwright.matmul_fp8(codes, kernelwright.quantize_rows_fp8(x[:1])[0], scale, dtype=torch.float32)
    assert y.isnan().view(-1).tolist() == [row in (2, 4, 5) for row in range(9)]


def test_a_product_is_near_that_of_the_numbers(x):
    weight = torch.randn(33, 64, device=x.device)
    (left, of_x), (right, of_weight) = kernelwright.quantize_rows_fp8(x), kernelwright.quantize_rows_fp8(weight)
    y = kernelwright.matmul_fp8(left, right, of_x, of_weight, dtype=torch.float32)
    expected = x @ weight.t()
    assert (y - expected).abs().max() <= 0.06 * expected.abs().max()


def test_all_codes_are_what_torch_reads(device):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(CODES).to(device).unsqueeze(1)
    one = torch.ones(1, 1, device=device).to(CODES)
    y = kernelwright.matmul_fp8(codes, one, dtype=torch.float32)
    assert torch.equal(y.nan_to_num(7.0), codes.float().nan_to_num(7.0))


@pytest.mark.parametrize("rows", [1, 8, 9, 16, 17, 64])
def test_all_codes_of_a_weight_are_what_torch_reads(rows, device):
    """Each in a row of its own, times one: of few rows they are decoded another way."""
    codes = torch.zeros(256, 16, dtype=torch.uint8, device=device)
    codes[torch.arange(256), torch.arange(256) % 16] = torch.arange(256, device=device).to(torch.uint8)
    weight = codes.view(CODES)
    y = kernelwright.matmul_fp8(torch.ones(rows, 16, device=device).to(CODES), weight, dtype=torch.float32)
    expected = weight.float().nan_to_num(7.0).sum(-1).expand(rows, -1)
    assert torch.equal(y.nan_to_num(7.0), expected)


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 16, 17, 65, 300])
@pytest.mark.parametrize("k", [528, 4096])
def test_the_same_bits_each_time_near_float64(rows, k, device, seed):
    make = torch.Generator(device).manual_seed(seed)
    x, weight = (torch.randn(n, k, generator=make, device=device).mul(60).to(CODES) for n in (rows, 1000))
    scale = torch.rand(1000, generator=make, device=device)
    first, *others = (kernelwright.matmul_fp8(x, weight, None, scale, dtype=torch.float32) for _ in range(3))
    assert all(torch.equal(first, other) for other in others)
    wide = x.double().abs() @ weight.double().abs().t() * scale.double()
    expected = x.double() @ weight.double().t() * scale.double()
    assert ((first - expected).abs() <= 2.0**-10 * wide).all()


def test_deep_sums(device, seed):
    """All of one sign, so that what a sum loses shows."""
    make = torch.Generator(device).manual_seed(seed)
    x, weight = (torch.rand(n, 4096, generator=make, device=device).mul(448).to(CODES) for n in (3, 16))
    y = kernelwright.matmul_fp8(x, weight, dtype=torch.float32)
    expected = x.double() @ weight.double().t()
    assert ((y - expected).abs() <= 2.0**-10 * expected).all()


REFUSED = [
    (lambda t: kernelwright.quantize_rows_fp8(t.w), InvalidDtype, "x has dtype torch.float8_e4m3fn"),
    (lambda t: kernelwright.quantize_rows_fp8(t.x[0, 0]), InvalidArgument, r"x has shape \(\)"),
    (lambda t: kernelwright.matmul_fp8(t.w, t.w[:, :5]), InvalidArgument, "weight has shape"),
    (lambda t: kernelwright.matmul_fp8(t.w, t.w[0]), InvalidArgument, "two dimensions"),
    (lambda t: kernelwright.matmul_fp8(t.x, t.w), InvalidDtype, "x has dtype torch.float32"),
    (lambda t: kernelwright.matmul_fp8(t.w, t.w, dtype=torch.int8), InvalidArgument, "dtype is torch.int8"),
    (lambda t: kernelwright.matmul_fp8(t.w, t.w, t.x[0, :8]), InvalidArgument, "x_scale has shape"),
    (lambda t: kernelwright.matmul_fp8(t.w, t.w, None, t.x[0, :8]), InvalidArgument, "weight_scale has shape"),
    (lambda t: kernelwright.matmul_fp8(t.w, t.w, bias=t.w[0, :9]), InvalidDtype, "bias has dtype"),
    (lambda t: kernelwright.matmul_fp8(t.w, t.w, activation="elu"), InvalidArgument, "activation is 'elu'"),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[words for _, _, words in REFUSED])
def test_refusals(x, call, kind, words):
    with pytest.raises(kind, match=words):
        call(SimpleNamespace(x=x, w=x.to(CODES)))
