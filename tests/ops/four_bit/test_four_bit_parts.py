# SPDX-License-Identifier: MIT
"""Parts of a quantized weight, scales of other types, a bias of another type, old forms: as bitsandbytes has them."""

from __future__ import annotations

import pytest

from tests.python.tensors import torch

pytestmark = pytest.mark.torch


@pytest.fixture
def nn():
    from kernelwright import nn

    return nn


@pytest.mark.parametrize("quantized", [False, True])
def test_parts_of_a_weight_are_weights(nn, quantized, device):
    weight = nn.Params4bit(torch.randn(64, 64), quant_type="nf4", blocksize=128, compress_statistics=False)
    weight = weight.to(device) if quantized else weight
    for parts in (torch.chunk(weight, 2), weight.chunk(2), torch.split(weight, len(weight) // 2), weight.split(32)[:2]):
        assert isinstance(parts, tuple)
        for part in parts:
            assert type(part) is nn.Params4bit
            assert (part.quant_type, part.blocksize, part.bnb_quantized) == ("nf4", 128, quantized)
            assert part.quant_state is weight.quant_state
    assert torch.equal(torch.cat([part.data for part in torch.chunk(weight, 2)]), weight.data)
    assert type(weight[:2]) is torch.Tensor  # what else is computed with it is a plain tensor
    assert type(weight + 1) is torch.Tensor


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("double", [False, True])
def test_scales_of_another_type(nn, dtype, double, device):
    layer = nn.Linear4bit(128, 64, quant_type="nf4", compress_statistics=double).to(device)
    state, x = layer.weight.quant_state, torch.randn(3, 128, device=device)
    holder = state.state2 if double else state
    holder.absmax = holder.absmax.to(dtype)
    if double:
        holder.code, state.offset = holder.code.to(dtype), state.offset.to(dtype)
    wide = layer.weight.dequantize()
    scales = holder.absmax.float()
    if double:
        scales = holder.code.float()[state.absmax.int()] * scales.repeat_interleave(256)[: state.absmax.numel()]
        scales = scales + state.offset.float()
    codes = torch.stack((layer.weight.data.view(-1) >> 4, layer.weight.data.view(-1) & 15), 1).view(-1).long()
    expected = (state.code[codes] * scales.repeat_interleave(64)).view(64, 128)
    torch.testing.assert_close(wide, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(layer(x), x @ wide.t() + layer.bias, rtol=1e-4, atol=1e-4)
    again = nn.Linear4bit(128, 64, quant_type="nf4", device="meta")
    again.load_state_dict(layer.state_dict(), assign=True)
    assert torch.equal(again.weight.dequantize(), layer.weight.dequantize())


@pytest.mark.parametrize("double", [False, True])
def test_under_another_default_type(nn, double, device):
    """transformers builds and loads a model under its type: what is made then must not have that of scales."""
    layer = nn.LinearNF4(128, 64, compress_statistics=double).to(device)
    held, x = layer.state_dict(), torch.randn(3, 128, device=device)
    wide = layer.weight.dequantize()
    torch.set_default_dtype(torch.bfloat16)
    try:
        again = nn.LinearNF4(128, 64, compress_statistics=double, device=device)
        again.load_state_dict(held)
        made = nn.LinearNF4(128, 64, compress_statistics=double).to(device)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(again.weight.dequantize(), wide)
    exact = torch.nn.functional.linear(x.bfloat16().double(), wide.double(), again.bias.double())
    assert (again(x.bfloat16()).double() - exact).abs().max() <= 2**-7 * exact.abs().max()
    assert made(x.bfloat16()).dtype is torch.bfloat16
    assert made.weight.quant_state.code.dtype is torch.float32


def test_a_bias_is_converted_once(nn, device):
    layer = nn.LinearNF4(64, 32, compute_dtype=torch.bfloat16).to(device)
    bias = layer.bias.detach().clone()
    assert bias.dtype is torch.float32
    y = layer(torch.zeros(2, 64, device=device))
    assert layer.bias.dtype is torch.bfloat16
    assert torch.equal(y, bias.bfloat16().float().expand(2, -1))
    y.sum().backward()
    assert layer.bias.grad.dtype is torch.bfloat16


def test_a_weight_that_was_quantized_transposed(device):
    from kernelwright.compat import bitsandbytes as bnb

    weight = torch.randn(128, 48, device=device)
    packed, state = bnb.functional.quantize_4bit(weight, quant_type="nf4")
    wide = bnb.functional.dequantize_4bit(packed, state)
    x = torch.randn(3, 128, device=device, requires_grad=True)
    for codes in (packed, packed.t()):
        with pytest.warns(DeprecationWarning, match=r"quantized from a \[K, N\] tensor \(\[128, 48\]\)"):
            y = bnb.matmul_4bit(x, codes, state)
        torch.testing.assert_close(y, x @ wide)
    grad = torch.randn_like(y)
    torch.testing.assert_close(torch.autograd.grad(y, x, grad)[0], grad @ wide.t())
