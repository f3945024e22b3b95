# SPDX-License-Identifier: MIT
"""kernelwright.compat.bitsandbytes by itself: what it covers, what it says of the rest, checkpoints of the real one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kernelwright
from kernelwright import errors
from tests.python.tensors import same_bits, torch

pytestmark = pytest.mark.torch

# Made by bitsandbytes: the first lines of tests/integrations/record_checkpoint.py say of which release.
RECORDED = json.loads(
    (Path(__file__).parents[1] / "ops" / "four_bit" / "bitsandbytes_checkpoint.json").read_text(encoding="utf-8")
)


@pytest.fixture
def bnb():
    import kernelwright.compat.bitsandbytes

    return kernelwright.compat.bitsandbytes


def tensors(parts, device="cpu"):
    """Tensors from the record: their bytes as hexadecimal digits."""
    return {
        name: torch.frombuffer(bytearray.fromhex(data), dtype=getattr(torch, dtype)).reshape(shape).to(device)
        for name, (dtype, shape, data) in parts.items()
    }


@pytest.mark.parametrize("record", RECORDED, ids=lambda record: record["name"])
def test_a_checkpoint_of_bitsandbytes(bnb, record, device):
    state = tensors(record["state_dict"])
    wide = tensors({"wide": record["dequantized"]})["wide"]
    layer = bnb.nn.Linear4bit(64, 16, device=device).to(wide.dtype)  # the bias keeps the layer's type, as in torch
    assert str(layer.load_state_dict(state)) == "<All keys matched successfully>"
    assert torch.equal(layer.weight.dequantize().cpu(), wide)
    # The same names in the same order, and every byte: the JSON in the packed state too.
    written = layer.state_dict()
    assert list(written) == list(state)
    for key, value in written.items():
        assert value.dtype is state[key].dtype, key
        assert same_bits(value.cpu(), state[key]), key  # packed codes seen as floats may be NaN
    x = torch.randn(3, 64, device=device).to(wide.dtype)
    exact = torch.nn.functional.linear(x.double(), wide.to(device).double(), layer.bias.double())
    assert (layer(x).double() - exact).abs().max() <= 2 * torch.finfo(wide.dtype).eps * exact.abs().max() + 1e-5


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_functions(bnb, quant_type, double, device, seed):
    torch.manual_seed(seed)
    F = bnb.functional  # noqa: N806 - as programs call it
    weight, x = torch.randn(48, 128, device=device), torch.randn(3, 128, device=device, requires_grad=True)
    bias = torch.randn(48, device=device, requires_grad=True)
    packed, state = F.quantize_4bit(weight, quant_type=quant_type, compress_statistics=double)
    assert packed.shape == (48 * 64, 1)
    assert (state.nested, state.shape, state.blocksize, state.dtype) == (double, weight.shape, 64, torch.float32)
    named = getattr(F, f"quantize_{quant_type}")(weight, compress_statistics=double)
    assert torch.equal(named[0], packed)
    assert named[1] == state
    operators, scales = kernelwright.quantize_4bit(weight, 64, quant_type, double_quant=double)
    assert torch.equal(packed.view(-1), operators)
    parts = (state.absmax, state.state2.absmax, state.state2.code, state.offset) if double else (state.absmax,)
    for part, expected in zip(parts, scales if double else (scales,), strict=True):
        assert torch.equal(part, expected)
    if double:
        assert torch.equal(state.offset, kernelwright.quantize_4bit(weight, 64, quant_type)[1].mean())
    wide = F.dequantize_4bit(packed, state)
    assert torch.equal(F.dequantize_4bit(packed.t(), state), wide.t())
    assert torch.equal(getattr(F, f"dequantize_{quant_type}")(packed, state), wide)
    y = bnb.matmul_4bit(x, packed, state, bias=bias)
    torch.testing.assert_close(y, torch.nn.functional.linear(x, wide, bias), rtol=1e-4, atol=1e-4)
    y.sum().backward()
    torch.testing.assert_close(x.grad, wide.sum(0).expand(3, -1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(bias.grad, torch.full_like(bias, 3.0))
    with torch.no_grad():
        out = torch.empty_like(y)
        assert bnb.matmul_4bit(x, packed, state, out=out, bias=bias) is out
        assert torch.equal(out, y)
        torch.testing.assert_close(F.gemv_4bit(x[:1], packed, state=state) + bias, y[:1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("double", [False, True])
def test_states_go_round(bnb, double, device):
    packed, state = bnb.functional.quantize_4bit(torch.randn(8, 64, device=device), compress_statistics=double)
    for is_packed in (False, True):
        parts = state.as_dict(packed=is_packed)
        again = bnb.functional.QuantState.from_dict({f"layer.weight.{k}": v for k, v in parts.items()}, device=device)
        assert again == state
        assert torch.equal(bnb.functional.dequantize_4bit(packed, again), bnb.functional.dequantize_4bit(packed, state))
    assert state != bnb.functional.quantize_4bit(torch.randn(8, 64, device=device), compress_statistics=double)[1]
    assert state[1] == (8, 64)
    with pytest.raises(errors.InvalidArgument, match=r"quant_type is 'af4', but must be 'nf4' or 'fp4'"):
        bnb.functional.QuantState.from_dict(state.as_dict() | {"quant_type": "af4"}, device=device)


def test_scales_and_codes_written_where_asked(bnb, device):
    F, weight = bnb.functional, torch.randn(8, 64, device=device)  # noqa: N806
    expected, state = F.quantize_4bit(weight, quant_type="nf4")
    out, absmax = torch.empty_like(expected), torch.empty_like(state.absmax)
    assert F.quantize_4bit(weight, absmax, out, quant_type="nf4")[0] is out
    assert torch.equal(out, expected)
    assert torch.equal(absmax, state.absmax)
    wide = torch.empty_like(weight)
    F.dequantize_4bit(out, absmax=absmax, out=wide, quant_type="nf4")
    assert torch.equal(wide, F.dequantize_4bit(expected, state))


def test_a_weight_that_is_to_learn(bnb):
    """bitsandbytes takes one as it is; what comes out has no history."""
    weight = torch.nn.Linear(64, 32).weight
    packed, state = bnb.functional.quantize_4bit(weight, quant_type="nf4", compress_statistics=True)
    assert not any(tensor.requires_grad for tensor in (packed, state.absmax, state.offset, state.state2.absmax))
    assert torch.equal(packed, bnb.functional.quantize_4bit(weight.detach(), quant_type="nf4")[0])


def test_what_is_not_covered(bnb):
    for module, name in ((bnb, "optim"), (bnb.nn, "Linear8bitLt"), (bnb.functional, "quantize_blockwise")):
        with pytest.raises(errors.NotCovered, match=f"does not cover '{name}'; it has .*install"):
            getattr(module, name)
        assert not hasattr(module, name)
    with pytest.raises(ImportError, match="cannot import name 'Linear8bitLt'"):
        from kernelwright.compat.bitsandbytes.nn import Linear8bitLt  # noqa: F401
    with pytest.raises(errors.InvalidArgument, match="quant_state is a NoneType, but must be a QuantState"):
        bnb.matmul_4bit(torch.randn(2, 64), torch.zeros(1, dtype=torch.uint8), None)
