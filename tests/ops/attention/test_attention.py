# SPDX-License-Identifier: MIT
"""What the cases of the records do not show: rows that see nothing, NaN beside a sequence, gradients, refusals."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import kernelwright
from kernelwright import errors
from kernelwright.ops.attention import _reference as reference

pytestmark = pytest.mark.torch


def heads(*shape, dtype=torch.float32, seed=0, device="cpu"):
    return torch.randn(shape, generator=torch.Generator(device).manual_seed(seed), device=device).to(dtype)


@pytest.fixture(params=["float32", "bfloat16"])
def dtype(request):
    return getattr(torch, request.param)


def test_queries_before_all_keys_are_zero(dtype, device):
    q, k = (
        heads(1, 2, 7, 64, dtype=torch.bfloat16, device=device),
        heads(1, 2, 3, 64, dtype=torch.bfloat16, device=device),
    )
    out, lse = kernelwright.attention(q, k, k, causal=True, return_lse=True)
    assert not out[:, :, :4].count_nonzero()
    assert (lse[:, :, :4] == -math.inf).all()
    assert out[:, :, 4:].isfinite().all()
    assert lse[:, :, 4:].isfinite().all()


def test_rows_whose_mask_hides_all_have_no_gradient(dtype, device):
    q, k, v = (heads(1, 2, 5, 16, dtype=dtype, seed=s, device=device).requires_grad_() for s in range(3))
    mask = torch.ones(1, 1, 5, 5, dtype=torch.bool, device=device)
    mask[:, :, 2] = False
    out = kernelwright.attention(q, k, v, mask=mask)
    assert not out[:, :, 2].count_nonzero()
    out.sum().backward()
    assert not q.grad[:, :, 2].count_nonzero()
    for tensor in (q, k, v):
        assert tensor.grad.isfinite().all()


def test_a_sequence_sees_nothing_of_its_neighbour(device):
    q = heads(9, 2, 64, dtype=torch.bfloat16, device=device)
    k = heads(9, 2, 64, dtype=torch.bfloat16, seed=1, device=device)
    k[4:] = math.nan
    starts = torch.tensor([0, 4, 9], dtype=torch.int32, device=device)
    out = kernelwright.attention_varlen(q, k, k, starts, starts, 5, 5)
    assert out[:4].isfinite().all()
    assert out[4:].isnan().all()


def test_padding_behind_the_last_sequence_is_zeros(dtype, device):
    """In results and gradients, whatever it holds; results lie in memory that others have filled before."""
    q, k, v = (heads(4096, 2, 64, dtype=dtype, seed=s, device=device) for s in range(3))
    for tensor in (q, k, v):
        tensor[9:] = math.nan
        tensor.requires_grad_()
    starts = torch.tensor([0, 4, 9], dtype=torch.int32, device=device)
    for _ in range(3):
        used = [torch.full_like(q, 7.0) for _ in range(4)]
        del used
        out, lse = kernelwright.attention_varlen(q, k, v, starts, starts, 5, 5, return_lse=True)
        gradients = torch.autograd.grad(out[:9].sum(), (q, k, v))
        assert not lse[:, 9:].count_nonzero()
        for tensor in (out, *gradients):
            assert not tensor[9:].count_nonzero()
            assert tensor[:9].count_nonzero() > 0


def test_a_nan_stays_in_its_row(dtype, device):
    q, k = heads(1, 1, 6, 32, dtype=dtype, device=device), heads(1, 1, 6, 32, dtype=dtype, seed=1, device=device)
    q[0, 0, 3, 5] = math.nan
    out = kernelwright.attention(q, k, k, causal=True)
    assert out[0, 0, 3].isnan().all()
    assert out[0, 0, [0, 1, 2, 4, 5]].isfinite().all()


def test_gradients_by_torch(device):
    q, k, v = (heads(1, h, 6, 8, dtype=torch.float64, seed=h, device=device).requires_grad_() for h in (4, 2, 2))
    sinks = heads(4, dtype=torch.float64, seed=5, device=device).requires_grad_()

    def run(q, k, v, sinks):
        return kernelwright.attention(q, k, v, sinks=sinks, causal=True, softcap=2.0)

    assert torch.autograd.gradcheck(run, (q, k, v, sinks))


def test_masks_of_either_kind_agree(device):
    q, k = heads(2, 2, 5, 16, device=device), heads(2, 2, 7, 16, seed=1, device=device)
    mask = torch.rand(5, 7, generator=torch.Generator(device).manual_seed(3), device=device) < 0.7
    mask[:, 0] = True
    added = torch.zeros(5, 7, device=device).masked_fill(~mask, -math.inf)
    found = [kernelwright.attention(q, k, k, mask=m) for m in (mask, added)]
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("window", [(-1, -1), (2, 0), (0, 3)])
def test_a_window_is_a_mask(window, device):
    q, k = heads(1, 2, 9, 16, device=device), heads(1, 2, 12, 16, seed=1, device=device)
    seen = reference.visible(9, 12, None, (1.0, False, *window, 0.0), q.device)
    torch.testing.assert_close(
        kernelwright.attention(q, k, k, window=window), kernelwright.attention(q, k, k, mask=seen)
    )


def test_refusals_name_what_is_wrong(device):
    q, k = heads(1, 4, 5, 16, device=device), heads(1, 3, 5, 16, device=device)
    with pytest.raises(errors.InvalidArgument, match="4 heads, which must be a multiple of k's 3"):
        kernelwright.attention(q, k, k)
    with pytest.raises(errors.InvalidArgument, match="rows of k have 8 elements"):
        kernelwright.attention(q, q[..., :8], q)
    with pytest.raises(errors.InvalidArgument, match="does not broadcast"):
        kernelwright.attention(q, q, q, mask=torch.ones(4, 4, dtype=torch.bool, device=device))
    with pytest.raises(errors.InvalidArgument, match="window_left is -2"):
        kernelwright.attention(q, q, q, window=(-2, 0))


@pytest.mark.parametrize("wrong", [[0, 9, 6], [0, 5, 4], [-1, 3, 6]])
def test_sequences_outside_their_tensors_are_refused_on_the_cpu(wrong):
    q = torch.randn(6, 2, 16)
    right, starts = (torch.tensor(each, dtype=torch.int32) for each in ([0, 3, 6], wrong))
    for given in ((starts, right), (right, starts)):
        with pytest.raises(errors.InvalidArgument, match="they must not fall, and be from 0 to the 6 rows"):
            kernelwright.attention_varlen(q, q, q, *given, 3, 3)


def test_what_is_added_and_slopes_and_lse_have_gradients(device):
    """Of which kernels have none: against float64's autograd through the definition."""
    shapes = (1, 2, 5, 16), (1, 1, 7, 16), (1, 1, 7, 16), (2, 1, 7), (2,)
    given = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
    exact = [t.detach().double().requires_grad_() for t in given]

    def loss(q, k, v, bias, slopes):
        out, lse = kernelwright.attention(q, k, v, mask=bias, alibi_slopes=slopes, softcap=2.0, return_lse=True)
        return (out.double() ** 2).sum() + lse.double().sin().sum()

    def definition(q, k, v, bias, slopes):
        out, lse = reference.attention(q, k, v, None, bias, None, slopes, 0.25, False, -1, -1, 2.0, False)
        return (out**2).sum() + lse.sin().sum()

    loss(*given).backward()
    definition(*exact).backward()
    for mine, other in zip(given, exact, strict=True):
        torch.testing.assert_close(mine.grad.double(), other.grad, rtol=1e-5, atol=1e-5)


def test_a_query_that_lies_in_the_cache_is_read_before_it_is_written(device):
    """Its elements are those of before the call, as if it lay elsewhere; two caches in one memory are refused."""
    cache, new = heads(2, 2, 64, 64, dtype=torch.bfloat16, device=device), heads(2, 2, 1, 64, device=device).bfloat16()
    lengths = torch.tensor([7, 7], dtype=torch.int32, device=device)
    values = cache.flip(2)
    expected = kernelwright.attention_decode(
        cache[:, :, 7:8].clone(), cache.clone(), values.clone(), lengths, k_new=new, v_new=new, causal=True
    )
    found = kernelwright.attention_decode(cache[:, :, 7:8], cache, values, lengths, k_new=new, v_new=new, causal=True)
    assert torch.equal(found, expected)
    with pytest.raises(errors.InvalidArgument, match="k and v are the same memory"):
        kernelwright.attention_decode(new, cache, cache, lengths, k_new=new, v_new=new)
