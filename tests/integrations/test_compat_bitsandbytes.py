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
    for module, name, why in (
        (bnb, "xpu_ops", r"not for AMD's \(ROCm\), Intel's"),
        (bnb.cextension, "get_cuda_bnb_library_path", "one library serves every CUDA release"),
        (bnb.functional.lib, "cget_managed_ptr", "managed memory is never used"),
        (bnb.functional, "nonsense", "it has .*What is not there, and why"),
    ):
        with pytest.raises(errors.NotCovered, match=f"does not cover '{name}'[:;] .*{why}"):
            getattr(module, name)
        assert not hasattr(module, name)
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        from kernelwright.compat.bitsandbytes.nn import Nothing  # noqa: F401
    with pytest.raises(errors.InvalidArgument, match="quant_state is a NoneType, but must be a QuantState"):
        bnb.matmul_4bit(torch.randn(2, 64), torch.zeros(1, dtype=torch.uint8), None)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_functions_by_address(bnb, kind, double, device, seed):
    """As Unsloth calls them: a weight back to floats, a product with one row, by ctypes' types."""
    import ctypes

    if device == "cpu" and torch.cuda.is_available():
        pytest.skip("where torch has a GPU, addresses are the GPU's")
    F, lib = bnb.functional, bnb.functional.lib  # noqa: N806
    weight = torch.randn(96, 128, device=device).half()
    packed, state = F.quantize_4bit(weight, quant_type=kind, compress_statistics=double)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream if device == "cuda" else 0)
    absmax = state.absmax
    if double:
        absmax = torch.empty(state.absmax.numel(), dtype=torch.float32, device=device)
        lib.cdequantize_blockwise_fp32(
            F.get_ptr(state.state2.code), F.get_ptr(state.absmax), F.get_ptr(state.state2.absmax), F.get_ptr(absmax),
            ctypes.c_int(state.state2.blocksize), ctypes.c_int(absmax.numel()), stream,
        )  # fmt: skip
        absmax += state.offset
    out = torch.empty_like(weight)
    getattr(lib, f"cdequantize_blockwise_fp16_{kind}")(
        F.get_ptr(None), F.get_ptr(packed), F.get_ptr(absmax), F.get_ptr(out), ctypes.c_int(64),
        ctypes.c_int(out.numel()), stream,
    )  # fmt: skip
    wide = F.dequantize_4bit(packed, state)
    assert torch.equal(out, wide)
    x, y = torch.randn(1, 128, device=device).half(), torch.empty(1, 96, device=device, dtype=torch.float16)
    whole = ctypes.c_int32
    lib["cgemm_4bit_inference_naive_fp16"](
        whole(96), whole(1), whole(128), F.get_ptr(x), F.get_ptr(packed), F.get_ptr(absmax), F.get_ptr(state.code),
        F.get_ptr(y), whole(96), whole(64), whole(96), whole(64), stream,
    )  # fmt: skip
    exact = x.double() @ wide.double().t()
    assert (y.double() - exact).abs().max() <= 2e-3 * exact.abs().max()
    codes, scales = torch.empty_like(packed), torch.empty(192, dtype=torch.float32, device=device)
    getattr(lib, f"cquantize_blockwise_fp16_{kind}")(
        None, F.get_ptr(weight), F.get_ptr(scales), F.get_ptr(codes), ctypes.c_int32(64), ctypes.c_int(weight.numel())
    )
    assert torch.equal(codes, packed)


@pytest.mark.parametrize("nested", [False, True])
def test_blockwise(bnb, nested, device, seed):
    F, x = bnb.functional, torch.randn(3, 1000, device=device)  # noqa: N806
    codes, state = F.quantize_blockwise(x, blocksize=256, nested=nested)
    wide = F.dequantize_blockwise(codes, state)
    assert (wide - x).abs().max() <= 0.05 * x.abs().max()
    if not nested:
        assert torch.equal(F.dequantize_blockwise(codes, absmax=state.absmax, code=state.code, blocksize=256), wide)
    out = torch.empty_like(x)
    assert F.dequantize_blockwise(codes, state, out=out) is out
    assert torch.equal(out, wide)
    for size in (100, 8192):  # sizes that no kernel has
        codes, state = F.quantize_blockwise(x, blocksize=size)
        assert (F.dequantize_blockwise(codes, state) - x).abs().max() <= 0.05 * x.abs().max()


@pytest.mark.parametrize("threshold", [0.0, 3.0])
def test_a_layer_in_8_bits(bnb, threshold, device, seed):
    """Beside float64, its checkpoint, and gradients in training."""
    with torch.device("cpu"):  # it is quantized on its way to the device
        layer = bnb.nn.Linear8bitLt(64, 96, has_fp16_weights=False, threshold=threshold)
    weight = layer.weight.detach().half().to(device)
    layer = layer.to(device)
    codes, scales = layer.weight.CB, layer.weight.SCB
    assert codes.dtype is torch.int8
    wide = codes.double() * scales.double().unsqueeze(1) / 127
    assert (wide - weight.double()).abs().max() <= scales.max() / 254 + 1e-6
    x = torch.randn(5, 64, device=device).half()
    held = layer.state_dict()
    exact = x.double() @ wide.t() + layer.bias.double()
    y = layer.eval()(x)
    assert y.dtype is torch.float16
    assert (y.double() - exact).abs().max() <= 0.02 * exact.abs().max()
    with torch.device("cpu"):
        again = bnb.nn.Linear8bitLt(64, 96, has_fp16_weights=False, threshold=threshold)
    again = again.to(device)
    again.load_state_dict(held)
    again.bias.data = again.bias.data.half()
    assert torch.equal(again.eval()(x), y)
    learning = bnb.nn.Linear8bitLt(64, 96, threshold=threshold).to(device).half()
    one = torch.randn(5, 64, device=device).half().requires_grad_()
    grad = torch.randn(5, 96, device=device).half()
    learning(one).backward(grad)
    expected = grad.double().t() @ one.double()
    assert (learning.weight.grad.double() - expected).norm() <= 0.05 * expected.norm()
    assert (one.grad.double() - grad.double() @ learning.weight.double()).norm() <= 0.05 * one.grad.double().norm()


def test_a_parameter_in_4_bits(bnb, device, seed):
    """What is no layer's weight: read as before, saved with the parts of its state."""
    experts = torch.nn.Module()
    experts.up = torch.nn.Parameter(torch.randn(4, 32, 64, device=device))
    before = experts.up.detach().clone()
    bnb.nn.parametrize.replace_parameter_4bit(experts, "up", quant_type="nf4", blocksize=64)
    assert experts.up.shape == before.shape
    assert (experts.up - before).abs().max() < 0.2 * before.abs().max()
    assert sum(p.nbytes for p in experts.parameters()) * 8 == before.nbytes
    held = experts.state_dict()
    assert {"up", "up.absmax", "up.quant_state.bitsandbytes__nf4"} <= held.keys()
    other = torch.nn.Module()
    other.up = torch.nn.Parameter(held["up"], requires_grad=False)
    parts = {name: value for name, value in held.items() if name.startswith("up.")}
    bnb.nn.parametrize.replace_parameter_4bit_prequantized(other, "up", parts, torch.device(device))
    assert torch.equal(other.up, experts.up)


def test_a_state_of_blocks_as_a_dictionary():
    """Of 8-bit codes: without a type and a shape."""
    from kernelwright.compat.bitsandbytes import functional

    x = torch.randn(64, 64)
    for nested in (False, True):
        codes, state = functional.quantize_blockwise(x, nested=nested, blocksize=256)
        same = functional.QuantState.from_dict(state.as_dict(), device=torch.device("cpu"))
        assert torch.equal(functional.dequantize_blockwise(codes, same), functional.dequantize_blockwise(codes, state))
    with pytest.raises(errors.InvalidArgument, match="quant_type is None"):
        functional.QuantState.from_dict({**state.as_dict(), "shape": [64, 64]}, device="cpu")


def test_a_bias_takes_the_type_of_the_input():
    from kernelwright import nn
    from kernelwright.compat.bitsandbytes.nn import Linear8bitLt

    layer = Linear8bitLt(64, 32, has_fp16_weights=False).to("cpu").eval()
    layer(torch.randn(2, 64, dtype=torch.float16))
    assert layer.bias.dtype is torch.float16
    assert isinstance(nn.Linear8bitLt(64, 32), Linear8bitLt)
