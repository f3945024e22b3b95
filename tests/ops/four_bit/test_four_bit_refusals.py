# SPDX-License-Identifier: MIT
"""What 4-bit layers, states, quantize_ and the functions with bitsandbytes' names say of what they cannot take."""

from __future__ import annotations

import json

import pytest

from kernelwright import errors
from tests.python.tensors import torch

pytestmark = pytest.mark.torch


@pytest.fixture
def layer():
    from kernelwright import nn

    return nn.LinearNF4(64, 32).to("cpu")


@pytest.fixture
def functional():
    from kernelwright.compat.bitsandbytes import functional

    return functional


def with_values(layer, **changes):
    """The layer's state dict with other values in its packed state."""
    state = dict(layer.state_dict())
    blob = next(key for key in state if "quant_state" in key)
    text = json.dumps(json.loads(bytes(state[blob].tolist())) | changes)
    return state | {blob: torch.tensor(list(text.encode()), dtype=torch.uint8)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dtype": "load"}, "dtype is 'load', but must be the name of a type"),
        ({"nested_dtype": "int32"}, "nested_dtype is 'int32', but must be the name of a type"),
        ({"shape": "ab"}, "shape is 'ab', but must be a list of sizes"),
        ({"shape": [-32, -64]}, r"shape is \[-32, -64\], but must be a list of sizes, none below 0"),
        ({"shape": [1 << 40, 1 << 40]}, "packed has 1024 elements, but must have 604462909807314587353088"),
        ({"blocksize": "64"}, "blocksize is '64', but must be a whole number"),
        ({"blocksize": 48}, "blocksize is 48, but must be one of"),
        ({"nested_blocksize": 64}, "quantized in blocks of 64, but the operators know blocks of 256"),
        ({"nested_offset": None}, "nested_offset is None, but must be a number"),
        ({"quant_type": ["nf4"]}, r"quant_type is \['nf4'\], but must be 'nf4' or 'fp4'"),
    ],
)
def test_values_of_a_checkpoint(layer, changes, said):
    before = layer.weight.dequantize()
    with pytest.raises(RuntimeError, match=said):
        layer.load_state_dict(with_values(layer, **changes))
    assert torch.equal(layer.weight.dequantize(), before)


@pytest.mark.parametrize("content", [b"[1, 2]", b"3", b"", b"\xff\xfe", b'{"shape"'])
def test_a_packed_state_that_is_none(layer, content):
    state = with_values(layer)
    blob = next(key for key in state if "quant_state" in key)
    with pytest.raises(RuntimeError, match="holds no JSON object"):
        layer.load_state_dict(state | {blob: torch.tensor(list(content), dtype=torch.uint8)})
    with pytest.raises(RuntimeError, match="absmax is a NoneType, but must be a tensor"):
        layer.load_state_dict(state | {"weight.absmax": None})
    with pytest.raises(RuntimeError, match="quant_map has other values than nf4"):
        layer.load_state_dict(state | {"weight.quant_map": torch.zeros(7)})
    with pytest.raises(RuntimeError, match=r'parameter named "weight", expected torch\.Tensor'):
        layer.load_state_dict(state | {"weight": 3})


def test_inputs_of_a_layer(layer):
    for x, said in (
        (None, "LinearNF4: its input is a NoneType, but must be a tensor"),
        (torch.tensor(1.0), r"x has shape \(\), but its last dimension must be 64"),
        (torch.ones(2, 64).to("meta"), "packed is on cpu, but the first tensor is on meta"),
        (torch.ones(2, 64, dtype=torch.int32), r"x has dtype torch\.int32, but must have"),
        (torch.ones(2, 64).to_sparse(), "x is a tensor of layout torch.sparse_coo"),
    ):
        with pytest.raises(errors.KernelwrightError, match=said):
            layer(x)
    from kernelwright import nn

    for table in (nn.EmbeddingNF4(50, 64).to("cpu"), nn.EmbeddingNF4(50, 30).to("cpu")):
        with pytest.raises(errors.InvalidArgument, match="EmbeddingNF4: its input is a list, but must be a tensor"):
            table([1, 2])
        with pytest.raises(errors.InvalidArgument, match="its input is on meta, but its weight is on cpu; move one"):
            table(torch.tensor([1], device="meta"))
        for place in (50, -1):
            with pytest.raises(IndexError, match="out of range"):
                table(torch.tensor([0, place]))
    assert nn.EmbeddingNF4(0, 64).to("cpu")(torch.empty(2, 0, dtype=torch.int64)).shape == (2, 0, 64)
    # Odd, and right.
    assert layer(torch.ones(0, 64)).shape == (0, 32)
    one = layer(torch.ones(64))
    assert torch.equal(layer(torch.ones(1, 64).expand(3, 64)), one.expand(3, -1))
    assert layer(torch.full((64,), torch.nan)).isnan().all()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = torch.nn.Sequential(torch.nn.Identity(), layer)(torch.ones(64))
    torch.testing.assert_close(mixed.float(), one, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("compute", ["bfloat16", torch.int32, 16])
def test_a_type_to_compute_in(compute):
    from kernelwright import nn

    with pytest.raises(errors.InvalidDtype, match=r"compute_dtype is .*, but must be torch\.float32 or"):
        nn.LinearNF4(64, 32, compute_dtype=compute)


def test_a_weight_that_is_to_learn():
    """What a user meets who gives an operator a layer's weight as it is."""
    import kernelwright

    weight = torch.nn.Linear(64, 32).weight
    with pytest.raises(errors.Unsupported, match=r"'x' requires them: .* or give it without \(\.detach\(\)\)$"):
        kernelwright.quantize_4bit(weight)
    assert kernelwright.quantize_4bit(weight.detach())[0].shape == (1024,)


def test_a_weight_that_was_to_learn_is_frozen():
    from kernelwright import nn

    weight = torch.randn(32, 64)
    made = nn.Params4bit(weight, requires_grad=True, quant_type="nf4").to("cpu")
    assert not made.requires_grad
    assert (made.dequantize() - weight).abs().max() <= 0.18 * weight.abs().max()


def test_outputs_of_functions(functional):
    F, w, x = functional, torch.randn(32, 64), torch.randn(2, 64)  # noqa: N806 - as programs call it
    packed, state = F.quantize_4bit(w, quant_type="nf4")
    many = torch.zeros(5, 1024, 1, dtype=torch.uint8)
    for call, said in (
        (lambda: F.quantize_4bit(w, out=many), r"out is \(5, 1024, 1\) of torch.uint8, but the result is \(1024, 1\)"),
        (lambda: F.quantize_4bit(w, torch.zeros(3)), r"absmax is \(3,\) of torch.float32, but the result is \(32,\)"),
        (lambda: F.quantize_4bit(w, torch.zeros(32), compress_statistics=True), "but the result is .* torch.uint8"),
        (lambda: F.dequantize_4bit(packed, state, out=torch.zeros(2, 32, 64)), r"out is \(2, 32, 64\)"),
        (lambda: F.dequantize_4bit(packed, state, out=w.half()), r"out is \(32, 64\) of torch.float16"),
        (lambda: F.matmul_4bit(x, packed, state, out=torch.zeros(4, 2, 32)), r"but the result is \(2, 32\)"),
    ):
        with pytest.raises(errors.InvalidArgument, match=said):
            call()
    assert not many.any()


def test_what_is_no_tensor_and_no_state(functional):
    F, w = functional, torch.randn(32, 64)  # noqa: N806
    packed, state = F.quantize_4bit(w)
    part = F.QuantState(state.absmax, state.shape, dtype=w.dtype)
    for call, said in (
        (lambda: F.quantize_4bit([1.0]), "quantize_4bit: A is a list, but must be a tensor"),
        (lambda: F.dequantize_4bit(None, state), "dequantize_4bit: A is a NoneType"),
        (lambda: F.dequantize_4bit(packed, {"absmax": w}), "quant_state is a dict, but must be a QuantState"),
        (
            lambda: F.dequantize_4bit(packed, part),
            "quant_state lacks its blocksize, quant_type, as quantize_4bit gives",
        ),
        (lambda: F.matmul_4bit(w, packed, part), "quant_state lacks its blocksize, quant_type, as quantize_4bit gives"),
        (lambda: F.matmul_4bit(None, packed, state), "matmul_4bit: A is a NoneType"),
        (lambda: F.matmul_4bit(w, packed, None), "quant_state is a NoneType, but must be a QuantState"),
    ):
        with pytest.raises(errors.InvalidArgument, match=said):
            call()


def test_a_model_is_quantized_whole_or_not_at_all():
    from kernelwright import nn

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64).double())
    with pytest.raises(errors.InvalidDtype, match=r"quantize_: '1': it has dtype torch\.float64"):
        nn.quantize_(model)
    assert [type(layer) for layer in model] == [torch.nn.Linear] * 2
    odd = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(3, 3))
    with pytest.raises(errors.InvalidArgument, match=r"quantize_: '1': .* 5 bytes, .* whole number of torch\.bfloat16"):
        nn.quantize_(odd, quant_storage=torch.bfloat16)
    assert [type(layer) for layer in odd] == [torch.nn.Linear] * 2
    mixed = torch.nn.Sequential(nn.LinearNF4(64, 64).to("cpu"), nn.LinearNF4(64, 64))
    with pytest.raises(errors.InvalidArgument, match="not quantized yet"):
        nn.dequantize_(mixed)
    assert [type(layer) for layer in mixed] == [nn.LinearNF4] * 2
    without, vector = (torch.nn.Sequential(torch.nn.Linear(3, 1)) for _ in range(2))
    without[0].weight, vector[0].weight = None, torch.nn.Parameter(torch.ones(3))
    for call, said in (
        (lambda: nn.quantize_(torch.zeros(3)), "the model is a Tensor, but must be a torch.nn.Module"),
        (lambda: nn.quantize_(model[:1], skip=3), "skip is 3, but must be a list of names"),
        (lambda: nn.quantize_(model[:1], skip=[model[0]]), r"skip is \[Linear.*but must be a list of names"),
        (lambda: nn.quantize_(model[:1], compute_dtype="bf16"), "quantize_: compute_dtype is 'bf16'"),
        (lambda: nn.quantize_(model[:1], device="meta"), "device is meta, where nothing has values"),
        (lambda: nn.quantize_(model[:1], quant_type=["nf4"]), r"quant_type is \['nf4'\], but must be 'nf4' or 'fp4'"),
        (lambda: nn.quantize_(without), "quantize_: '0': its weight is a NoneType, but must be a matrix"),
        (lambda: nn.quantize_(vector), r"quantize_: '0': its weight has shape \(3,\), but must be a matrix"),
        (lambda: nn.dequantize_(None), "dequantize_: the model is a NoneType"),
        (lambda: nn.dequantize_(model, "float16"), "dtype is 'float16', but must be a torch type of floats"),
    ):
        with pytest.raises(errors.InvalidArgument, match=said):
            call()
    assert [type(layer) for layer in model] == [torch.nn.Linear] * 2
