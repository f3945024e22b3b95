# SPDX-License-Identifier: MIT
"""Rope in place: the bits of the other form, whatever the memory, and nothing else written."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import kernelwright
from kernelwright import errors

pytestmark = pytest.mark.torch


def draw(*shape, dtype=torch.float32, seed=0, device="cpu"):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def table(device, dtype=torch.float32, pairs=8, rows=5):
    angles = draw(rows, pairs, seed=9)
    return [t.to(device, dtype) for t in (angles.cos(), angles.sin())]


def _plain(x, k):
    return x, k


def _by_rows(x, k):
    """[batch, rows, heads, d] in memory, as linear layers leave it."""
    return x.transpose(1, 2).contiguous().transpose(1, 2), k.transpose(1, 2).contiguous().transpose(1, 2)


def _of_one_product(x, k):
    """Both in the rows of one matrix, with v behind them."""
    batch, heads, rows, d = x.shape
    both = x.new_full((batch, rows, heads + 2 * k.shape[1], d), 99.0)
    views = both[:, :, :heads].transpose(1, 2), both[:, :, heads : heads + k.shape[1]].transpose(1, 2)
    return views[0].copy_(x), views[1].copy_(k)


def _mingled(x, k):
    """Rows of k between those of x, where no stride tells them apart: a kernel cannot write to both at once."""
    batch, heads, rows, d = x.shape
    both = x.new_full((batch, heads, 2 * rows, d), 99.0)
    views = both[:, :, ::2], both[:, : k.shape[1], 1::2]
    return views[0].copy_(x), views[1].copy_(k)


def _elements_apart(x, k):
    return x.new_empty((*x.shape, 2))[..., 0].copy_(x), k.new_empty((*k.shape, 3))[..., 1].copy_(k)


LAYOUTS = (_plain, _by_rows, _of_one_product, _mingled, _elements_apart)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__.strip("_"))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("interleaved", [False, True])
def test_the_bits_of_the_other_form(layout, dtype, interleaved, device):
    x, k = draw(2, 4, 5, 20, dtype=dtype, device=device), draw(2, 2, 5, 20, dtype=dtype, seed=1, device=device)
    cos, sin = table(device)
    options = {"interleaved": interleaved}
    for pair in (True, False):
        expected = kernelwright.rope(x, cos, sin, k=k, **options)
        mine, other = layout(x.clone(), k.clone())
        around = _around(mine, other)
        found = kernelwright.rope(mine, cos, sin, k=other if pair else None, inplace=True, **options)
        assert found[0] is mine if pair else found is mine
        assert torch.equal(mine, expected[0])
        assert torch.equal(other, expected[1] if pair else k)
        assert around is None or (around() == 99.0).all()


def _around(x, k):
    """What lies in the same memory and is neither's; x and k must have no 99 in them."""
    base = x._base
    if base is None or k._base is not base:
        return None
    taken = torch.zeros_like(base, dtype=torch.bool)
    for view in (x, k):
        taken.as_strided(view.shape, view.stride(), view.storage_offset()).fill_(True)
    return lambda: base[~taken]


def test_rows_first(device):
    x, k = draw(2, 5, 4, 16, device=device), draw(2, 5, 2, 16, seed=1, device=device)
    cos, sin = table(device)
    expected = kernelwright.rope(x, cos, sin, k=k, seq_dim=-3)
    found = kernelwright.rope(x, cos, sin, k=k, seq_dim=-3, inplace=True)
    assert found[0] is x
    assert found[1] is k
    assert torch.equal(x, expected[0])
    assert torch.equal(k, expected[1])


def test_memory_that_is_shared(device):
    """A table that is written to is read before; so are positions."""
    cos, sin = table(device)
    held = torch.cat((draw(2 * 5 * 16, device=device), cos.flatten(), sin.flatten()))
    x = held[:160].view(1, 2, 5, 16)
    near, far = (held[at : at + 40].view(5, 8) for at in (96, 200))  # the first within x
    expected = kernelwright.rope(x, near.clone(), far)
    kernelwright.rope(x, near, far, inplace=True)
    assert torch.equal(x, expected)
    both = draw(1, 2, 5, 16, device=device)
    expected = kernelwright.rope(both, cos, sin)
    kernelwright.rope(both, cos, sin, k=both, inplace=True)  # the later writing counts
    assert torch.equal(both, expected)


def test_batches_that_reach_between_each_other(device):
    """Batches half a row of the other tensor apart: their rows cross, though within a row both are apart."""
    memory = draw(700, device=device)

    def views(of):
        x = of.as_strided((2, 1, 2, 8), (150, 8, 100, 1), 0)
        return x, of.as_strided((2, 1, 2, 8), (150, 8, 100, 1), 50)  # row 1 of batch 0 is row 0 of x's batch 1

    cos, sin = table(device, pairs=4)
    x, k = views(memory.clone())
    first = kernelwright.rope(x, cos, sin, k=k)
    held = memory.clone()
    x, k = views(held)
    kernelwright.rope(x, cos, sin, k=k, inplace=True)
    assert torch.equal(k, first[1])


def test_gradients_and_versions(device):
    x = draw(1, 2, 5, 16, device=device)
    cos, sin = table(device)
    with pytest.raises(errors.Unsupported, match=r"records no gradients.*call it under torch.no_grad"):
        kernelwright.rope(x.clone().requires_grad_(), cos, sin, inplace=True)
    kept = draw(1, 2, 5, 16, device=device).requires_grad_()
    product, before = kept * x, x._version
    kernelwright.rope(x, cos, sin, inplace=True)
    assert x._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_refusals(device):
    cos, sin = table(device)
    with pytest.raises(errors.InvalidArgument, match=r"x has shape .* so several of its elements may lie in one place"):
        kernelwright.rope(draw(1, 1, 5, 16, device=device).expand(1, 3, 5, 16), cos, sin, inplace=True)
    with torch.inference_mode():
        x = draw(1, 2, 5, 16, device=device)
    with pytest.raises(errors.InvalidArgument, match="x was made in inference mode"):
        kernelwright.rope(x, cos, sin, inplace=True)
    with torch.inference_mode():
        expected = kernelwright.rope(x, cos, sin)
        kernelwright.rope(x, cos, sin, inplace=True)
        assert torch.equal(x, expected)


def test_compiled(device):
    x, k = draw(2, 4, 5, 16, device=device), draw(2, 2, 5, 16, seed=1, device=device)
    cos, sin = table(device)
    expected = kernelwright.rope(x, cos, sin, k=k)

    def step(x, k):
        kernelwright.rope(x, cos, sin, k=k, inplace=True)
        return x + 1

    found = torch.compile(step, fullgraph=True, backend="aot_eager")(x, k)
    assert torch.equal(x, expected[0])
    assert torch.equal(k, expected[1])
    assert torch.equal(found, expected[0] + 1)
