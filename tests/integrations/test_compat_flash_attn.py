# SPDX-License-Identifier: MIT
"""flash-attn's functions on our kernels: its layouts, its arguments by position, and what is refused by name."""

from __future__ import annotations

import importlib.metadata
import inspect
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from kernelwright.compat import flash_attn
from kernelwright.compat.flash_attn import bert_padding
from kernelwright.compat.flash_attn.layers import rotary
from kernelwright.errors import InvalidArgument, InvalidDtype, NotCovered, Unsupported

pytestmark = pytest.mark.torch
NEAR = 4e-3


@pytest.fixture
def draw(device):
    return lambda *shape: torch.randn(shape, device=device).half()


def right(q, k, v, causal=False, scale=None):
    """[batch, rows, heads, d], in float64."""
    q, k, v = (t.double().transpose(1, 2) for t in (q, k, v))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(k.shape[2] - q.shape[2])
        scores = scores.masked_fill(~seen, -torch.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2), scores.logsumexp(-1)


def near(a, b):
    return (a.double() - b).abs().max() <= NEAR


def test_dense_and_packed(draw):
    q, k, v = draw(2, 9, 4, 64), draw(2, 13, 2, 64), draw(2, 13, 2, 64)
    expected, lse = right(q, k, v, causal=True)
    out, found, nothing = flash_attn.flash_attn_func(q, k, v, 0.0, None, True, return_attn_probs=True)
    assert near(out, expected)
    assert near(found, lse)
    assert nothing is None
    assert near(flash_attn.flash_attn_kvpacked_func(q, torch.stack([k, v], 2), causal=True), expected)
    qkv = draw(2, 9, 3, 4, 64)
    assert near(flash_attn.flash_attn_qkvpacked_func(qkv, softmax_scale=0.2), right(*qkv.unbind(2), scale=0.2)[0])


def test_sequences_one_after_the_other(draw, device):
    starts = torch.tensor([0, 5, 6, 14], dtype=torch.int32, device=device)
    qkv = draw(14, 3, 4, 64)
    q, k, v = qkv.unbind(1)
    alone = [right(*(t[None, a:b] for t in (q, k, v)), causal=True)[0][0] for a, b in ((0, 5), (5, 6), (6, 14))]
    call = q, k, v, starts, starts, 8, 8
    assert near(flash_attn.flash_attn_varlen_func(*call, causal=True), torch.cat(alone))
    kv = torch.stack([k, v], 1)
    assert near(flash_attn.flash_attn_varlen_kvpacked_func(q, kv, starts, starts, 8, 8, causal=True), torch.cat(alone))
    assert near(flash_attn.flash_attn_varlen_qkvpacked_func(qkv, starts, 8, causal=True), torch.cat(alone))


def test_padding(draw, device):
    mask = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 0], [1, 1, 1, 1]], device=device)
    x = draw(3, 4, 2, 8)
    rows, indices, starts, most, used = bert_padding.unpad_input(x, mask)
    assert torch.equal(rows, x[mask.bool()])
    assert starts.tolist() == [0, 3, 5, 9]
    assert starts.dtype == torch.int32
    assert (most, used.tolist()) == (4, [3, 2, 4])
    assert torch.equal(bert_padding.pad_input(rows, indices, 3, 4), x * mask[..., None, None])
    y = x.float().requires_grad_()
    bert_padding.pad_input(bert_padding.index_first_axis(y.flatten(0, 1), indices), indices, 3, 4).sum().backward()
    assert torch.equal(y.grad, mask[..., None, None].expand_as(y).float())


def test_gradients(draw):
    q, k, v = (draw(1, 7, 2, 32).requires_grad_() for _ in range(3))
    wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    flash_attn.flash_attn_func(q, k, v, causal=True).sum().backward()
    right(*wide, causal=True)[0].sum().backward()
    for mine, other in zip((q, k, v), wide, strict=True):
        assert (mine.grad.double() - other.grad).abs().max() <= 1e-2


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("page", [None, 4])
def test_with_a_cache(draw, device, interleaved, page):
    """Token by token what all at once gives; rope by hand."""
    batch, rows, d = 2, 16, 32
    q, k, v = draw(batch, 7, 4, d), draw(batch, 7, 2, d), draw(batch, 7, 2, d)
    angles = torch.rand(rows, d // 2, device=device) * 6
    cos, sin = angles.cos().half(), angles.sin().half()

    def turned(x):
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        c, s = cos[:7, None], sin[:7, None]
        parts = a * c - b * s, b * c + a * s
        return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)

    expected = right(turned(q), turned(k), v, causal=True)[0]
    if page is None:
        caches, table = [torch.zeros(batch, rows, 2, d, device=device).half() for _ in range(2)], None
    else:
        caches = [torch.zeros(batch * rows // page + 1, page, 2, d, device=device).half() for _ in range(2)]
        table = torch.randperm(batch * rows // page, device=device).to(torch.int32).view(batch, -1)
    for first, end in ((0, 3), (3, 4), (4, 7)):
        new = [t[:, first:end].contiguous() for t in (q, k, v)]
        held = torch.full((batch,), first, dtype=torch.int32, device=device)
        out, lse = flash_attn.flash_attn_with_kvcache(
            new[0], *caches, new[1], new[2], cos, sin, held, block_table=table, causal=True,
            rotary_interleaved=interleaved, return_softmax_lse=True,
        )  # fmt: skip
        assert (out.double() - expected[:, first:end]).abs().max() <= 2e-2
        assert lse.shape == (batch, 4, end - first)
    again = flash_attn.flash_attn_with_kvcache(turned(q)[:, 6:], *caches, cache_seqlens=7, block_table=table)
    assert (again.double() - expected[:, 6:]).abs().max() <= 2e-2


def turned(x, cos, sin, places, interleaved):
    """In float64; x [..., rows, heads, d], and which row of cos and sin each row has."""
    c, s, pairs = cos.double()[places][..., None, :], sin.double()[places][..., None, :], cos.shape[-1]
    x = x.double()
    turning, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    a, b = (turning[..., ::2], turning[..., 1::2]) if interleaved else turning.chunk(2, -1)
    parts = a * c - b * s, b * c + a * s
    return torch.cat((torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1), rest), -1)


@pytest.fixture
def tables(device):
    angles = torch.rand(20, 12, device=device) * 6
    return angles.cos().half(), angles.sin().half()


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(draw, tables, device, interleaved, inplace):
    rows, more = torch.arange(7, device=device), torch.tensor([4, 11], device=device)
    for offsets, places in ((0, rows), (9, rows + 9), (more, more[:, None] + rows), (more.int(), more[:, None] + rows)):
        x = draw(2, 7, 3, 32)
        expected = turned(x, *tables, places, interleaved)
        found = rotary.apply_rotary_emb(x, *tables, interleaved, inplace, offsets)
        assert (found is x) == inplace
        assert near(found, expected)
    starts = torch.tensor([0, 3, 3, 9], dtype=torch.int32, device=device)
    within = torch.tensor([0, 1, 2, 0, 1, 2, 3, 4, 5], device=device)
    which = torch.tensor([0, 0, 0, 2, 2, 2, 2, 2, 2], device=device)
    for offsets in (2, torch.tensor([5, 1, 8], device=device)):
        x = draw(9, 3, 32)
        places = within + (offsets if isinstance(offsets, int) else offsets[which])
        expected = turned(x, *tables, places, interleaved)
        found = rotary.apply_rotary_emb_func(
            x, *tables, interleaved, inplace, seqlen_offsets=offsets, cu_seqlens=starts, max_seqlen=6
        )
        assert (found is x) == inplace
        assert near(found, expected)


def test_rotary_has_gradients_also_in_place(draw, tables):
    x = draw(2, 7, 3, 32).requires_grad_()
    weight = draw(2, 7, 3, 32)
    found = [torch.autograd.grad((rotary.apply_rotary_emb(x * 1, *tables, inplace=inplace) * weight).sum(), x)[0]
             for inplace in (False, True)]  # fmt: skip
    assert torch.equal(*found)
    assert found[0].count_nonzero()


def test_rotary_of_packed_tensors(draw, device):
    module = rotary.RotaryEmbedding(24).to(device)
    powers = 10000.0 ** -(torch.arange(0, 24, 2, device=device).double() / 24)
    angles = torch.arange(12, device=device)[:, None] * powers
    tables = angles.cos().half(), angles.sin().half()
    rows = torch.arange(7, device=device)
    qkv, grouped = draw(2, 7, 3, 4, 32), draw(2, 7, 4 + 2 * 2, 32)
    before, wide = qkv.clone(), grouped.clone()
    assert module(qkv, seqlen_offset=5) is qkv
    for place in (0, 1):
        assert near(qkv[:, :, place], turned(before[:, :, place], *tables, rows + 5, False))
    assert torch.equal(qkv[:, :, 2], before[:, :, 2])
    module(grouped, num_heads_q=4)
    assert near(grouped[:, :, :6], turned(wide[:, :, :6], *tables, rows, False))
    assert torch.equal(grouped[:, :, 6:], wide[:, :, 6:])
    q, kv = draw(2, 7, 4, 32), draw(2, 7, 2, 2, 32)
    expected = [turned(x, *tables, rows, False) for x in (q, kv[:, :, 0])]
    found = module(q, kv)
    assert near(found[0], expected[0])
    assert near(found[1][:, :, 0], expected[1])
    with pytest.raises(InvalidArgument, match="max_seqlen must say"):
        module(q, kv, seqlen_offset=torch.zeros(2, dtype=torch.int32, device=device))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("flash_attn_func", {"dropout_p": 0.1}),
        ("flash_attn_with_kvcache", {"cache_leftpad": 1}),
        ("flash_attn_with_kvcache", {"rotary_cos": 1}),
    ],
)
def test_refused_by_name(draw, name, options):
    q = draw(1, 4, 2, 32)
    with pytest.raises(Unsupported, match=next(iter(options))):
        getattr(flash_attn, name)(q, q, q, **options)


def test_other_types_and_names(draw):
    with pytest.raises(InvalidDtype, match="fp16 and bf16"):
        flash_attn.flash_attn_func(*[torch.zeros(1, 4, 2, 32, dtype=torch.float64)] * 3)
    with pytest.raises(NotCovered):
        flash_attn.flash_blocksparse_attn_func  # noqa: B018
    assert not hasattr(flash_attn, "losses")
    assert not hasattr(flash_attn.layers, "patch_embed")
    with pytest.raises(Unsupported, match="scale_base=512"):
        rotary.RotaryEmbedding(32, scale_base=512)


def test_installed_under_its_name():
    if "flash_attn" in sys.modules or importlib.util.find_spec("flash_attn"):
        pytest.skip("flash-attn itself is installed")
    flash_attn.install()
    try:
        import flash_attn as found
        from flash_attn.bert_padding import pad_input
        from flash_attn.flash_attn_interface import flash_attn_varlen_func
        from flash_attn.layers.rotary import apply_rotary_emb

        assert found.flash_attn_func is flash_attn.flash_attn_func
        assert flash_attn_varlen_func is flash_attn.flash_attn_varlen_func
        assert pad_input is bert_padding.pad_input
        assert apply_rotary_emb is found.layers.rotary.apply_rotary_emb is rotary.apply_rotary_emb
        assert importlib.util.find_spec("flash_attn") is not None
        assert importlib.metadata.version("flash_attn") == found.__version__
        assert importlib.metadata.packages_distributions()["flash_attn"] == ["flash-attn"]
    finally:
        flash_attn.uninstall()
    assert importlib.util.find_spec("flash_attn") is None
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("flash-attn")


def test_arguments_stand_in_flash_attns_order():
    first = list(inspect.signature(flash_attn.flash_attn_func).parameters)
    assert first[3:] == [
        "dropout_p", "softmax_scale", "causal", "window_size", "softcap", "alibi_slopes", "deterministic",
        "return_attn_probs",
    ]  # fmt: skip
