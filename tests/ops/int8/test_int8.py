# SPDX-License-Identifier: MIT
"""Products of 8-bit integers beyond their records: what they are refused for, and what a whole product is good to."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import kernelwright
from kernelwright import _library
from kernelwright.errors import InvalidArgument, InvalidDtype, KernelwrightError

pytestmark = pytest.mark.torch


@pytest.fixture
def x(seed, device):
    return torch.randn(9, 64, generator=torch.Generator(device).manual_seed(seed), device=device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_codes_are_what_the_formula_says(x, dtype):
    codes, absmax = kernelwright.quantize_rows_int8(x.to(dtype))
    wide = x.to(dtype).float()
    assert torch.equal(absmax, wide.abs().amax(1))
    scaled = wide * (127 * (1 / absmax)).unsqueeze(1)
    assert ((codes - scaled).abs() <= 0.5001).all()
    assert codes.abs().amax(1).tolist() == [127] * 9


def test_halves_are_rounded_to_even(device):
    row = torch.tensor([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -126.5]], device=device)
    codes, _ = kernelwright.quantize_rows_int8(row)
    assert codes.tolist() == [[127, 0, 2, 2, 0, -2, -126]]


def test_the_least_scale(x):
    codes, absmax = kernelwright.quantize_rows_int8(x * 1e-9, clamp=1e-5)
    assert (absmax == 1e-5).all()
    assert not codes.any()
    codes, absmax = kernelwright.quantize_rows_int8(torch.zeros_like(x))
    assert not codes.any()
    assert not absmax.any()


def test_rows_that_are_no_numbers_are_told_of(x):
    x[2, 5], x[4, 7] = torch.nan, torch.inf
    codes, absmax, sums = kernelwright.quantize_rows_int8(x, sums=True)
    assert absmax[2].isnan()
    assert absmax[4].isinf()
    assert not codes[[2, 4]].any()
    assert torch.equal(sums.long(), codes.long().sum(1))
    assert (codes[[0, 1, 3]].abs().amax(1) == 127).all()


def test_the_norm_before_it(x):
    weight = torch.rand(64, device=x.device) + 0.5
    found, absmax = kernelwright.quantize_rows_int8(x, weight=weight, eps=1e-5)
    y = kernelwright.rms_norm(x, weight, eps=1e-5)
    torch.testing.assert_close(absmax, y.abs().amax(1))
    assert (found - kernelwright.quantize_rows_int8(y)[0]).abs().max() <= 1


def test_outliers_leave_their_columns(x):
    x = x.clamp(-4, 4)
    x[3, 10], x[5, 20], x[6, 10] = 6.0, -40.0, 9.0
    codes, absmax, columns = kernelwright.quantize_rows_int8(x, threshold=6.0)
    assert columns.nonzero().view(-1).tolist() == [10, 20]
    assert columns.dtype is torch.bool
    assert not codes[:, columns].any()
    rest = torch.where(x.abs() >= 6, 0, x)
    assert torch.equal(absmax, rest.abs().amax(1))
    expected = kernelwright.quantize_rows_int8(rest)[0]
    expected[:, columns] = 0
    assert torch.equal(codes, expected)


def test_a_product_is_near_that_of_the_numbers(x):
    weight = torch.randn(33, 64, device=x.device)
    left, right = kernelwright.quantize_rows_int8(x), kernelwright.quantize_rows_int8(weight)
    y = kernelwright.matmul_int8(left[0], right[0], left[1], right[1])
    expected = x @ weight.t()
    assert y.dtype is torch.float32
    assert (y - expected).abs().max() <= 0.02 * expected.abs().max()


@pytest.mark.parametrize("rows", [1, 3, 9, 40])
def test_sums_are_exact(rows, seed, device):
    make = torch.Generator(device).manual_seed(seed)
    x, weight = (
        torch.randint(-128, 128, (n, 320), generator=make, device=device, dtype=torch.int8) for n in (rows, 50)
    )
    sums = kernelwright.matmul_int8(x, weight)
    assert sums.dtype is torch.int32
    assert torch.equal(sums.double(), x.double() @ weight.double().t())


@pytest.fixture(params=["scalar", "avx2", "avx512", "neon"])
def isa(request):
    library = _library.load()
    try:
        library.call("kw_set_option", b"cpu_isa", request.param.encode())
    except KernelwrightError:
        pytest.skip(f"this CPU or this build has no {request.param}")
    yield
    library.call("kw_set_option", b"cpu_isa", b"")


@pytest.mark.parametrize("k", [1, 63, 64, 65, 200])
def test_sums_of_every_instruction_set_are_exact(k, seed, isa):
    """Rows and columns that are no multiple of a tile, between bytes that are not theirs, of the largest sizes too."""
    make = torch.Generator().manual_seed(seed)
    x, weight = (torch.randint(-128, 128, (n, 256), generator=make, dtype=torch.int8) for n in (70, 75))
    x[:, ::3], weight[:, ::3], weight[5] = -128, 127, -128
    x, weight = x[:, 3 : 3 + k], weight[:, 5 : 5 + k]
    for rows in (1, 2, 3, 4, 5, 8, 32, 35, 70):
        for columns in (1, 4, 6, 75):
            sums = kernelwright.matmul_int8(x[:rows], weight[:columns])
            assert torch.equal(sums.double(), x[:rows].double() @ weight[:columns].double().t()), (rows, columns)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_results_of_every_instruction_set_are_the_same(dtype, seed, isa):
    make = torch.Generator().manual_seed(seed)
    x, weight = (torch.randint(-128, 128, (n, 100), generator=make, dtype=torch.int8) for n in (6, 11))
    of_x, of_weight = torch.rand(6, generator=make), torch.rand(11, generator=make)
    bias = torch.randn(11, generator=make).to(dtype)
    y = kernelwright.matmul_int8(x, weight, of_x, of_weight, bias, factor=0.01, dtype=dtype)
    sums = (x.double() @ weight.double().t()).float()
    expected = sums * (of_x[:, None] * of_weight) * torch.tensor(0.01) + bias.float()
    assert torch.equal(y, expected.to(dtype))


def test_the_largest_sums(device):
    for value in (-128, 127):
        x = torch.full((20, 131071), value, dtype=torch.int8, device=device)
        assert (kernelwright.matmul_int8(x, x[:3]) == 131071 * value * value).all()


REFUSED = [
    (lambda t: kernelwright.quantize_rows_int8(t.x, clamp=-1.0), InvalidArgument, "clamp is -1.0"),
    (lambda t: kernelwright.quantize_rows_int8(t.x, eps=-1.0), InvalidArgument, "eps is -1.0"),
    (lambda t: kernelwright.quantize_rows_int8(t.x, weight=t.x[0]), InvalidArgument, "weight is that of the norm"),
    (lambda t: kernelwright.quantize_rows_int8(t.x, threshold=-2.0), InvalidArgument, "threshold is -2.0"),
    (lambda t: kernelwright.quantize_rows_int8(t.x, threshold=6.0, sums=True), InvalidArgument, "cannot be combined"),
    (lambda t: kernelwright.quantize_rows_int8(t.x[:, :0], eps=1e-5), InvalidArgument, "have no norm"),
    (lambda t: kernelwright.quantize_rows_int8(t.w), InvalidDtype, "x has dtype torch.int8"),
    (lambda t: kernelwright.matmul_int8(t.w, t.w[:, :5]), InvalidArgument, "weight has shape"),
    (lambda t: kernelwright.matmul_int8(t.x, t.w), InvalidDtype, "x has dtype torch.float32"),
    (lambda t: kernelwright.matmul_int8(t.w, t.w, t.x[0, :9], dtype=torch.int32), InvalidArgument, "leave out x_scale"),
    (lambda t: kernelwright.matmul_int8(t.w, t.w, dtype=torch.int8), InvalidArgument, "dtype is torch.int8"),
    (lambda t: kernelwright.matmul_int8(t.w, t.w, t.x[0, :8]), InvalidArgument, "x_scale has shape"),
    (lambda t: kernelwright.matmul_int8(t.w, t.w, t.x[0, :9], factor=1e39), InvalidArgument, "factor is 1e\\+39"),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[words for _, _, words in REFUSED])
def test_refusals(x, call, kind, words):
    with pytest.raises(kind, match=words):
        call(SimpleNamespace(x=x, w=torch.ones(9, 64, dtype=torch.int8, device=x.device)))


def test_sums_that_may_not_fit_are_refused(device):
    x = torch.zeros(1, 131072, dtype=torch.int8, device=device)
    with pytest.raises(InvalidArgument, match="may not fit into int32"):
        kernelwright.matmul_int8(x, x)
