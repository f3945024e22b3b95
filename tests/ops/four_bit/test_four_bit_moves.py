# SPDX-License-Identifier: MIT
"""4-bit layers whose tensors somebody moved or converted: the state goes with the codes, the codes stay as they are."""

from __future__ import annotations

import pytest

from tests.python.tensors import torch

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("double", [False, True])
def test_the_state_follows_a_weight_that_moved_alone(double, device):
    """fully_shard moves parameters and DataParallel copies them to other devices; neither knows of the state."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from kernelwright import nn

    made, x = nn.LinearNF4(64, 32, compress_statistics=double).to("cpu"), torch.randn(3, 64)
    state, codes, y = made.quant_state, made.weight.data, made(x)
    replica = made._replicate_for_data_parallel()
    if device == "cuda":
        replica.weight, replica.bias = codes.to("cuda"), made.bias.detach().to("cuda")
        torch.testing.assert_close(replica(x.to("cuda")).cpu(), y, rtol=1e-5, atol=1e-5)
    elif not torch.cuda.is_available():
        with FakeTensorMode(allow_non_fake_inputs=True):  # a GPU that is not there
            replica.weight = torch.empty(1024, 1, dtype=torch.uint8, device="cuda:0")
            found = [replica.quant_state.absmax, replica.quant_state.code]
            found += [replica.quant_state.state2.absmax, replica.quant_state.offset] if double else []
            assert {str(tensor.device) for tensor in found} == {"cuda:0"}
    assert made.quant_state is state
    assert str(state.absmax.device) == "cpu"
    for data in (codes.to("meta"), codes):  # what offloads weights leaves a shell, and brings them back
        made.weight = torch.nn.Parameter(data, requires_grad=False)
    assert torch.equal(made(x), y)


@pytest.mark.parametrize("lost", [False, True])
def test_a_quantized_layer_moves_whole(device, lost):
    """There and back; and where FSDP has put a plain tensor in the parameter's place."""
    from kernelwright import nn

    made, x = nn.LinearNF4(64, 32).to("cpu"), torch.randn(3, 64)
    y = made(x)
    if lost:
        made.weight = torch.nn.Parameter(made.weight.data, requires_grad=False)
    made.to(device)
    torch.testing.assert_close(made(x.to(device)).cpu(), y, rtol=1e-5, atol=1e-5)
    assert torch.equal(made.to("cpu")(x), y)
    state = made.to("meta").quant_state
    parts = (made.weight, state.absmax, state.code, state.offset, state.state2.absmax, state.state2.code)
    assert {part.device.type for part in parts} == {"meta"}


@pytest.mark.gpu
def test_data_parallel():
    from kernelwright import nn

    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    model = torch.nn.Sequential(nn.EmbeddingNF4(50, 64), nn.LinearNF4(64, 40), nn.LinearFP4(40, 8)).to("cuda")
    ids = torch.randint(0, 50, (6, 3), device="cuda")
    torch.testing.assert_close(torch.nn.DataParallel(model, [0, 1])(ids), model(ids), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dim", [64, 30])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_embedding_gives_what_its_model_was_converted_to(device, dim, when):
    from kernelwright import nn

    made, ids = nn.EmbeddingNF4(50, dim), torch.randint(0, 50, (2, 3), device=device)
    made = made.half().to(device) if when == "before" else made.to(device).half()
    codes, expected = made.weight.data.clone(), made.weight.dequantize()[ids].half()
    assert torch.equal(made(ids), expected)
    assert made(ids).dtype is torch.float16
    assert made.bfloat16()(ids).dtype is torch.bfloat16
    assert torch.equal(made.weight.data, codes)


CONVERSIONS = {
    "double": lambda made: made.double(),
    "type": lambda made: made.type(torch.float16),
    "type by name": lambda made: made.type("torch.DoubleTensor"),
    "half": lambda made: made.half(),
    "to": lambda made: made.to(torch.float64),
}


@pytest.mark.parametrize("storage", [torch.uint8, torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("how", CONVERSIONS)
@pytest.mark.parametrize("lookup", [False, True])
def test_no_conversion_touches_codes(how, storage, lookup):
    """Also where they are seen as floats, which torch would round."""
    from kernelwright import nn

    made = nn.EmbeddingNF4(50, 64, quant_storage=storage) if lookup else nn.LinearNF4(64, 32, quant_storage=storage)
    x = torch.randint(0, 50, (2, 3)) if lookup else torch.randn(3, 64)
    y, codes = made.to("cpu")(x), made.weight.data.clone().view(torch.uint8)
    converted = CONVERSIONS[how](made)
    assert converted is made
    assert isinstance(made.weight, nn.Params4bit)
    assert made.weight.dtype is storage
    assert torch.equal(made.weight.data.view(torch.uint8), codes)
    torch.testing.assert_close(made(x).to(y.dtype), y, rtol=2**-10, atol=2**-10)


@pytest.mark.parametrize("how", CONVERSIONS)
def test_conversions_before_it_is_quantized(how):
    """They are those of any weight, and do not quantize it; `type()` alone asks."""
    from kernelwright import nn

    made, plain = nn.LinearNF4(64, 32), torch.nn.Linear(64, 32)
    made.load_state_dict(plain.state_dict())
    CONVERSIONS[how](made), CONVERSIONS[how](plain)
    assert not made.weight.bnb_quantized
    assert made.weight.dtype is plain.weight.dtype
    assert torch.equal(made.weight.data, plain.weight.data)
    assert made.weight.type() == plain.weight.type()


def test_a_moved_weight_leaves_the_other_where_it_is():
    """`.to()` gives another parameter of a quantized one, as of any tensor."""
    from kernelwright import nn

    weight = nn.Params4bit(torch.randn(32, 64), quant_type="nf4").to("cpu")
    state, before = weight.quant_state, weight.dequantize()
    assert weight.to("meta").quant_state.absmax.is_meta
    assert weight.quant_state is state
    assert torch.equal(weight.dequantize(), before)


def test_what_is_said_beside_the_device():
    """Of `.to(device, dtype)`: what dequantizing gives."""
    from kernelwright import nn

    made = nn.LinearNF4(64, 32).to("cpu", torch.float16)
    assert made.weight.dequantize().dtype is torch.float16
    assert made.bias.dtype is torch.float16


def test_copies_of_layers_that_share_a_weight():
    """They share one among themselves, which tells its own layers when it is quantized, and not the first ones."""
    import copy

    from kernelwright import nn

    first, second = (nn.LinearNF4(64, 32, bias=False) for _ in range(2))
    second.weight = first.weight
    made = copy.deepcopy(torch.nn.ModuleList([first, second]))
    assert made[0].weight is made[1].weight
    assert made[0].weight is not first.weight
    made.to("cpu")
    assert made[0].weight.module is made[0]
    assert first.quant_state is None
    x = torch.randn(3, 64)
    assert torch.equal(made[0](x), made[1](x))
