# SPDX-License-Identifier: MIT
"""kernelwright.scaled_dot_product_attention beside torch's, in float64; what kernels do not take is torch's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import kernelwright

pytestmark = pytest.mark.torch
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
NEAR = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class Seen(TorchDispatchMode):
    """How often our operator ran."""

    def __init__(self):
        super().__init__()
        self.ours = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ours += str(func) == "kernelwright.attention.default"
        return func(*args, **(kwargs or {}))


def drawn(device, dtype, batch=2, heads=4, kv_heads=4, queries=33, keys=33, d=64, d_v=None):
    def draw(*shape):
        return torch.randn(shape, device=device).to(dtype)

    return (
        draw(batch, heads, queries, d), draw(batch, kv_heads, keys, d), draw(batch, kv_heads, keys, d if d_v is None else d_v)
    )  # fmt: skip


def expected(q, k, v, mask=None, is_causal=False, scale=None):
    """By definition, in float64."""
    q, k, v = (t.double() for t in (q, k, v))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(
            ~torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(), -torch.inf
        )
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.double()
    return torch.softmax(scores, -1).nan_to_num() @ v


CALLS = {
    "plain": ({}, {}),
    "causal": ({}, {"is_causal": True}),
    "causal, fewer queries": ({"queries": 9}, {"is_causal": True}),
    "causal, more queries": ({"keys": 9}, {"is_causal": True}),
    "grouped": ({"kv_heads": 2}, {"enable_gqa": True}),
    "scale": ({}, {"scale": 0.3}),
    "other v": ({"d": 96, "d_v": 40}, {}),
    "one query": ({"queries": 1, "kv_heads": 1}, {"enable_gqa": True}),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_as_torch_defines_it(device, dtype, call):
    shape, options = CALLS[call]
    q, k, v = drawn(device, dtype, **shape)
    with Seen() as seen:
        out = kernelwright.scaled_dot_product_attention(q, k, v, **options)
    options = {name: value for name, value in options.items() if name != "enable_gqa"}
    assert seen.ours == (device == "cpu" or dtype != torch.float32)
    assert out.dtype == dtype
    assert (out.double() - expected(q, k, v, **options)).abs().max() <= NEAR[dtype]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(33, 33), (33,), (2, 1, 33, 33), (1, 4, 1, 33), (4, 33, 33)], ids=str)
@pytest.mark.parametrize("kind", ["bool", "added"])
def test_masks(device, shape, kind):
    q, k, v = drawn(device, torch.bfloat16)
    mask = torch.randn(shape, device=device)
    mask = mask > 0 if kind == "bool" else mask.bfloat16()
    with Seen() as seen:
        out = kernelwright.scaled_dot_product_attention(q, k, v, mask)
    assert seen.ours == 1
    assert (out.double() - expected(q, k, v, mask)).abs().max() <= NEAR[torch.bfloat16]


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_see_nothing_are_zeros(device):
    q, k, v = drawn(device, torch.float16)
    mask = torch.ones(33, 33, dtype=torch.bool, device=device)
    mask[5] = False
    out = kernelwright.scaled_dot_product_attention(q, k, v, mask)
    assert (out[:, :, 5] == 0).all()
    assert out.isfinite().all()


@pytest.mark.parametrize("device", DEVICES)
def test_gradients(device):
    q, k, v = (t.requires_grad_() for t in drawn(device, torch.float16, kv_heads=2))
    grad = torch.randn(2, 4, 33, 64, device=device).half()
    found = torch.autograd.grad(
        kernelwright.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), (q, k, v), grad
    )
    wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    for mine, right in zip(
        found, torch.autograd.grad(expected(*wide, is_causal=True), wide, grad.double()), strict=True
    ):
        assert (mine.double() - right).abs().max() <= 5e-3 * right.abs().max()


@pytest.mark.parametrize(
    ("shape", "options"),
    [({}, {"dropout_p": 0.5}), ({"d": 264}, {})],
    ids=["dropout", "wide heads"],
)
def test_what_torch_computes(shape, options):
    q, k, v = drawn("cpu", torch.float32, **shape)
    with Seen() as seen:
        torch.manual_seed(7)
        found = kernelwright.scaled_dot_product_attention(q, k, v, **options)
    torch.manual_seed(7)
    assert torch.equal(found, functional.scaled_dot_product_attention(q, k, v, **options))
    assert seen.ours == 0


def test_a_mask_that_learns_is_torchs():
    q, k, v = drawn("cpu", torch.float32)
    mask = torch.zeros(33, 33, requires_grad=True)
    kernelwright.scaled_dot_product_attention(q, k, v, mask).sum().backward()
    assert mask.grad is not None


def test_what_torch_refuses():
    q, k, v = drawn("cpu", torch.float32, kv_heads=2)
    with pytest.raises(RuntimeError):
        kernelwright.scaled_dot_product_attention(q, k, v)  # without enable_gqa


@pytest.mark.parametrize("device", DEVICES)
def test_autocast(device):
    q, k, v = drawn(device, torch.float32)
    with torch.autocast(device, torch.bfloat16):
        out = kernelwright.scaled_dot_product_attention(q, k, v, torch.zeros(33, 33, device=device))
    assert out.dtype == torch.bfloat16


def test_three_dimensions():
    q, k, v = (t[0] for t in drawn("cpu", torch.float32))
    found = kernelwright.scaled_dot_product_attention(q, k, v)
    assert torch.allclose(found, functional.scaled_dot_product_attention(q, k, v), atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_compiled(device):
    q, k, v = drawn(device, torch.bfloat16, kv_heads=2)

    def step(q, k, v):
        return kernelwright.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True) * 2

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v), step(q, k, v))
