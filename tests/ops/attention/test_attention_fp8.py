# SPDX-License-Identifier: MIT
"""Attention of 8-bit floats beyond its record: every code, the order of keys, factors of all kinds, what is refused."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import kernelwright
from kernelwright.errors import InvalidArgument, InvalidDtype
from kernelwright.ops.attention import _fp8 as definition

pytestmark = pytest.mark.torch

CODES = torch.float8_e4m3fn


def drawn(seed, device, shapes, size=120.0):
    make = torch.Generator(device).manual_seed(seed)
    return [(torch.randn(s, generator=make, device=device) * size).clamp(-448, 448).to(CODES) for s in shapes]


def exact(q, k, v, q_scale, k_scale, v_scale, *, causal=False):
    """In float64, of numbers times their factors."""

    def numbers(codes, factor):
        while factor.dim() < 2:
            factor = factor.unsqueeze(0)
        return codes.double() * factor.double()[..., None, None]

    each = q.shape[1] // k.shape[1]
    q, k, v = numbers(q, q_scale), numbers(k, k_scale), numbers(v, v_scale)
    k, v = (t.repeat_interleave(each, 1) for t in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1 + k.shape[2] - q.shape[2]), -torch.inf)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)


@pytest.mark.parametrize("d", [64, 128, 40])
@pytest.mark.parametrize("form", ["one number", "one of one", "heads", "batches and heads", "columns"])
def test_factors_of_every_form(form, d, seed, device):
    q, k, v = drawn(seed, device, [(2, 4, 70, d), (2, 2, 150, d), (2, 2, 150, d)])
    make = torch.Generator(device).manual_seed(seed)
    wide = {"one number": (), "one of one": (1,), "heads": (1,), "batches and heads": (2, 1), "columns": (2, 1)}[form]
    factors = []
    for heads in (4, 2, 2):
        shape = (*wide[:-1], heads) if form in ("heads", "batches and heads") else wide
        factors.append((torch.rand(shape, generator=make, device=device) + 0.5) / 120)
    scales = dict(zip(("q_scale", "k_scale", "v_scale"), factors, strict=True))
    expected, logs = exact(q, k, v, *factors, causal=True)
    found, lse = kernelwright.attention_fp8(q, k, v, **scales, causal=True, dtype=torch.float32, return_lse=True)
    assert (found - expected).abs().max() <= 2e-5
    assert (lse - logs).abs().max() <= 2e-5
    # Shares are rounded where tensor cores take them: each by a sixteenth at most, which mean values take out again.
    short = kernelwright.attention_fp8(q, k, v, **scales, causal=True).double()
    assert (short - expected).norm() <= 0.045 * expected.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_every_code_of_v_is_what_torch_reads(dtype, device):
    """Of a single key, which has a share of one: numbers to the bit, and NaN."""
    v = torch.arange(256, dtype=torch.int32, device=device).to(torch.uint8).view(CODES).view(4, 1, 1, 64)
    q = torch.ones(4, 1, 3, 64, device=device).to(CODES)
    out = kernelwright.attention_fp8(q, q[:, :, :1], v, dtype=dtype)
    expected = v.to(torch.float32).to(dtype).expand(4, 1, 3, 64)
    assert torch.equal(out.isnan(), expected.isnan())
    assert torch.equal(out.nan_to_num(7.0), expected.nan_to_num(7.0))


@pytest.mark.parametrize("d", [64, 128, 72])
@pytest.mark.parametrize("keys", [1, 31, 128, 300])
def test_each_query_finds_its_key(keys, d, seed, device):
    """Keys of signs alone, far enough from each other that a query like one has it alone: results are its value."""
    make = torch.Generator(device).manual_seed(seed)
    k = torch.randint(0, 2, (1, 2, keys, d), generator=make, device=device).mul(2).sub(1).float().to(CODES)
    [v] = drawn(seed, device, [(1, 2, keys, d)])
    order = torch.randperm(keys, generator=make, device=device)
    q = k.float()[:, :, order].to(CODES)
    out, lse = kernelwright.attention_fp8(q, k, v, scale=16.0, return_lse=True)
    assert torch.equal(out, v.float()[:, :, order].to(out.dtype))
    torch.testing.assert_close(lse, torch.full_like(lse, 16.0 * d), rtol=2.0**-10, atol=0)


def test_queries_and_keys_that_are_no_numbers(seed, device):
    q, k, v = drawn(seed, device, [(1, 1, 140, 64), (1, 1, 140, 64), (1, 1, 140, 64)])
    factor = torch.tensor(1 / 120, device=device)
    scales = {"q_scale": factor, "k_scale": factor, "v_scale": factor, "causal": True, "return_lse": True}
    usual, usual_lse = kernelwright.attention_fp8(q, k, v, **scales)
    nothing = torch.tensor(0x7F, dtype=torch.uint8, device=device)
    for tensor, row, wrong in ((q, 9, [9]), (k, 130, range(130, 140))):
        changed = tensor.clone()
        changed.view(torch.uint8)[0, 0, row, 3] = nothing
        given = (changed, k, v) if tensor is q else (q, changed, v)
        out, lse = kernelwright.attention_fp8(*given, **scales)
        expected = torch.zeros(140, dtype=torch.bool, device=device)
        expected[list(wrong)] = True
        assert torch.equal(out[0, 0].isnan().all(-1), expected)
        assert torch.equal(lse[0, 0].isnan(), expected)
        assert torch.equal(out[0, 0][~expected], usual[0, 0][~expected])
        assert torch.equal(lse[0, 0][~expected], usual_lse[0, 0][~expected])


@pytest.mark.parametrize("d", [64, 40])
def test_factors_at_the_edges(d, seed, device):
    q, k, v = drawn(seed, device, [(1, 1, 7, d), (1, 1, 200, d), (1, 1, 200, d)], 1.0)

    def run(**given):
        scales = {name: torch.tensor(value, device=device) for name, value in given.items()}
        return kernelwright.attention_fp8(q, k, v, **scales, return_lse=True)

    for zero in (0.0, -0.0, 1e-42):  # every score is 0
        out, lse = run(q_scale=zero)
        mean = v.double().mean(2, keepdim=True).expand(out.shape)
        assert (out.double() - mean).abs().max() <= 2.0**-7
        torch.testing.assert_close(lse, torch.full_like(lse, 200.0).log(), rtol=1e-5, atol=0)
    one = torch.ones((), device=device)
    expected, logs = exact(-q.float(), k, v, one, one, one)
    out, lse = run(k_scale=-1.0)
    assert (out.double() - expected).norm() <= 0.045 * expected.norm()
    assert (lse - logs).abs().max() <= 0.02
    for bad in (torch.nan, torch.inf):
        for name in ("q_scale", "k_scale", "v_scale"):
            out, lse = run(**{name: bad})
            assert not out.isfinite().any(), (name, bad)
            assert lse.isfinite().all() == (name == "v_scale")
    out, _ = run(v_scale=0.0)
    assert not out.any()


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("scale", [0.4, 3.0, 1e3, 1e6, 1e20])
def test_scores_as_large_as_they_get(scale, d, device):
    """One key of the largest product there is, one of half of it, the others opposite: shares of 1 and of 0, or of equals."""
    q = torch.full((1, 1, 5, d), 448.0, device=device).to(CODES)
    k = -q[:, :, :1].float().expand(1, 1, 140, d)
    [v] = drawn(1, device, [(1, 1, 140, d)], 1.0)
    for best in ([3], [3, 131]):  # of one tile, and of two
        keys = k.clone()
        keys[:, :, best] = 448.0
        keys[:, :, 7] = 224.0
        out, lse = kernelwright.attention_fp8(q, keys.to(CODES), v, scale=scale, return_lse=True)
        mean = v.float()[:, :, best].mean(2, keepdim=True).expand(out.shape)
        torch.testing.assert_close(out.float(), mean, rtol=2.0**-7, atol=2.0**-9)
        torch.testing.assert_close(lse, torch.full_like(lse, 448.0**2 * d * scale), rtol=2.0**-12, atol=0)


def test_what_is_refused_is_named(seed, device):
    q, k, v = drawn(seed, device, [(1, 4, 5, 64), (1, 2, 6, 64), (1, 2, 6, 64)])
    factor = torch.ones(1, 4, device=device)
    with pytest.raises(
        InvalidDtype, match=r"attention_fp8: q has dtype torch.float16, but must have torch.float8_e4m3fn"
    ):
        kernelwright.attention_fp8(q.half(), k, v)
    with pytest.raises(InvalidDtype, match=r"attention_fp8: v has dtype torch.float8_e5m2"):
        kernelwright.attention_fp8(q, k, v.float().to(torch.float8_e5m2))
    with pytest.raises(InvalidDtype, match=r"attention_fp8: q_scale has dtype torch.bfloat16"):
        kernelwright.attention_fp8(q, k, v, q_scale=factor.bfloat16())
    with pytest.raises(InvalidArgument, match=r"k_scale has shape \(1, 4\), but must be one number, .* of k, \(1, 2\)"):
        kernelwright.attention_fp8(q, k, v, k_scale=factor)
    with pytest.raises(InvalidArgument, match=r"attention_fp8: dtype is torch.int32"):
        kernelwright.attention_fp8(q, k, v, dtype=torch.int32)
    with pytest.raises(InvalidArgument, match=r"attention_fp8: q has 4 heads, which must be a multiple of k's 3"):
        kernelwright.attention_fp8(q, *drawn(seed, device, [(1, 3, 6, 64), (1, 3, 6, 64)]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_gpus_without_the_kernels_take_instead(dtype, seed, device):
    q, k, v = drawn(seed, device, [(2, 4, 40, 64), (2, 2, 90, 64), (2, 2, 90, 64)])
    factors = [torch.full((2, heads), by / 120, device=device) for heads, by in ((4, 1.3), (2, 0.9), (2, 1.1))]
    out, lse = definition.by_attention(q, k, v, *factors, 64**-0.5, True, -1, -1, dtype)
    expected, logs = exact(q, k, v, *factors, causal=True)
    assert out.dtype == dtype
    assert (out.double() - expected).norm() <= 0.01 * expected.norm()
    assert (lse - logs).abs().max() <= 0.02


def test_only_calls_that_are_fast_are_taken():
    """On the CPU all are; elsewhere by size, or by what tensor cores want, which tests/emulator looks at."""
    from kernelwright import _library

    fits = definition._decider(_library.load())
    assert fits(-1, 1, 1, 1 << 20, 1 << 20, 33, 7, 0, 1)
