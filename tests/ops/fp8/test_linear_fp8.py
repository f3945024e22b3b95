# SPDX-License-Identifier: MIT
"""LinearFP8: numbers, gradients, state dicts, moves, whole models, torch.compile and export."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from kernelwright import nn
from kernelwright.errors import InvalidArgument, InvalidDtype
from kernelwright.ops.linear._reference import ACTIVATIONS, activated

pytestmark = pytest.mark.torch

CODES = torch.float8_e4m3fn


@pytest.fixture
def dense(seed, device):
    torch.manual_seed(seed)
    return torch.nn.Linear(64, 40).to(device)


@pytest.fixture
def x(dense, device):
    return torch.randn(3, 5, 64, device=device)


def quantized(x):
    """What x is to the product, in float64."""
    scale = x.float().abs().amax(-1, keepdim=True) / torch.tensor(448.0, device=x.device)
    return (x.float() / scale).to(CODES).double() * scale.double()


class OfTorch(torch.autograd.Function):
    """Straight through."""

    @staticmethod
    def forward(*arguments):
        return arguments[-1]

    @staticmethod
    def backward(*arguments):
        return arguments[-1], None


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS[1:]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_numbers_and_gradients(dense, x, activation, dtype):
    layer = nn.LinearFP8.from_linear(dense, activation)
    x = x.to(dtype).requires_grad_()
    weight, wide = quantized(dense.weight.detach()), x.detach().double().requires_grad_()
    bias = dense.bias.detach().double().requires_grad_()
    straight = OfTorch.apply(wide, quantized(wide.detach()))
    expected = activated(torch.nn.functional.linear(straight, weight, bias), activation)
    grad = torch.randn(expected.shape, dtype=torch.float64, device=x.device).to(dtype)
    by_x, by_bias = torch.autograd.grad(expected, [wide, bias], grad.double())
    y = layer(x)
    assert y.dtype is dtype
    bound = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-5)
    sums = 0.0  # what FP8 tensor cores may lose of them, as docs/fp8.md says; no activation is much steeper than 1
    if x.is_cuda and dtype is torch.float32:
        sums = 1.2 * 2**-10 * torch.nn.functional.linear(straight.abs(), weight.abs()).detach()
        bound = 1e-3  # of gradients, where the activation's slope is taken at such a result
    assert ((y.double() - expected).abs() <= bound + bound * expected.abs() + sums).all()
    mine, of_bias = torch.autograd.grad(y, [x, layer.bias], grad)
    assert mine.dtype is dtype
    torch.testing.assert_close(mine.double(), by_x, rtol=4 * bound, atol=4 * bound)
    torch.testing.assert_close(of_bias.double(), by_bias, rtol=4 * bound, atol=16 * bound)
    with torch.no_grad():
        assert torch.equal(layer(x), y)


def test_a_layer_is_near_the_dense_one(dense, x):
    expected = dense(x)
    assert (nn.LinearFP8.from_linear(dense)(x) - expected).abs().max() <= 0.06 * expected.abs().max()


def test_the_weight_is_not_trained(dense):
    layer = nn.LinearFP8.from_linear(dense)
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    assert layer.bias is dense.bias


def test_state_dicts(dense, x):
    layer = nn.LinearFP8.from_linear(dense, "silu")
    state = layer.state_dict()
    assert {name: tensor.dtype for name, tensor in state.items()} == {
        "bias": torch.float32, "weight": CODES, "weight_scale": torch.float32,
    }  # fmt: skip
    for changed in (state, {**state, "weight_scale": state["weight_scale"].unsqueeze(1)}):
        fresh = nn.LinearFP8(64, 40, activation="silu").to(x.device)
        assert not torch.equal(fresh(x), layer(x))
        fresh.load_state_dict(changed)
        assert torch.equal(fresh(x), layer(x))
    with torch.device("meta"):
        empty = nn.LinearFP8(64, 40, activation="silu")
    empty.load_state_dict(state, assign=True)
    assert torch.equal(empty(x), layer(x))
    with pytest.raises(RuntimeError, match=r"must be torch.float8_e4m3fn; of a weight in floats"):
        fresh.load_state_dict({**state, "weight": dense.weight})


def test_moves_leave_codes_and_scales_alone(dense, x):
    layer = nn.LinearFP8.from_linear(dense)
    for change in (lambda m: m.to(torch.bfloat16), lambda m: m.half(), lambda m: m.double(), copy.deepcopy):
        moved = change(copy.deepcopy(layer))
        assert moved.weight.dtype is CODES
        assert torch.equal(moved.weight.view(torch.uint8), layer.weight.view(torch.uint8))
        assert torch.equal(moved.weight_scale, layer.weight_scale)
        assert moved(x.to(moved.bias.dtype)).dtype is moved.bias.dtype
    assert layer.to("meta").weight.is_meta
    assert layer.weight.dtype is CODES


def test_autocast(dense, x, device):
    layer = nn.LinearFP8.from_linear(dense, "gelu")
    with torch.autocast(torch.device(device).type, torch.bfloat16):
        y = layer(x)
    assert y.dtype is torch.bfloat16
    assert torch.equal(y, layer(x.bfloat16()))


def test_a_model(device, seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.SiLU(), torch.nn.Linear(64, 8)).to(device)
    x = torch.randn(6, 32, device=device)
    expected = model(x)
    assert nn.quantize_fp8_(model, skip=["2"]) is model
    assert type(model[0]) is nn.LinearFP8
    assert type(model[2]) is torch.nn.Linear
    assert (model(x) - expected).abs().max() <= 0.1 * expected.abs().max()
    wide = torch.nn.Sequential(torch.nn.Linear(4, 4, dtype=torch.float64))
    with pytest.raises(InvalidDtype, match=r"'0' has a weight of torch\.float64"):
        nn.quantize_fp8_(wide)
    assert type(wide[0]) is torch.nn.Linear


def test_an_unknown_activation_is_refused():
    with pytest.raises(InvalidArgument, match="activation is 'elu'"):
        nn.LinearFP8(4, 4, activation="elu")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")  # advice of inductor's on a GPU
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # dynamo does so itself
@pytest.mark.parametrize("training", [False, True])
def test_compiled(dense, x, training):
    layer = nn.LinearFP8.from_linear(dense, "silu")
    compiled = torch.compile(layer, fullgraph=True)
    given = [x.clone().requires_grad_(training) for _ in range(2)]
    with torch.set_grad_enabled(training):
        expected, found = layer(given[0]), compiled(given[1])
    torch.testing.assert_close(found, expected)
    if training:
        torch.testing.assert_close(
            *(
                torch.autograd.grad(y.square().sum(), [t])[0]
                for y, t in zip((found, expected), given[::-1], strict=True)
            )
        )


@pytest.mark.slow
def test_exported(dense, x):
    layer = nn.LinearFP8.from_linear(dense, "relu").requires_grad_(False)
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: rows},))
    other = torch.randn(7, 5, 64, device=x.device)
    assert torch.equal(program.module()(other), layer(other))
