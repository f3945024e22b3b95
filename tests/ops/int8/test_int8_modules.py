# SPDX-License-Identifier: MIT
"""Layers in 8 bits: when they are quantized, what they compute, how they learn, move, are saved and loaded."""

from __future__ import annotations

import copy
import importlib
import pickle

import pytest

torch = pytest.importorskip("torch")

from kernelwright import nn
from kernelwright.errors import InvalidArgument

pytestmark = pytest.mark.torch


@pytest.fixture
def dense(seed):
    torch.manual_seed(seed)
    return torch.nn.Linear(64, 40)


@pytest.fixture
def layer(dense, device):
    made = nn.Linear8bitLt(64, 40, has_fp16_weights=False)
    made.load_state_dict(dense.state_dict())
    return made.to(device).eval()


def codes_of(weight):
    """As the definition has them, by way of float16."""
    half = weight.detach().half()
    absmax = half.abs().amax(1).float()
    return torch.round(half * (127 * (1 / absmax)).unsqueeze(1)).to(torch.int8), absmax


def test_a_move_quantizes(dense, layer):
    codes, scales = codes_of(dense.weight)
    state = layer.state_dict()
    assert list(state) == ["weight", "bias", "SCB", "weight_format"]
    assert (state["weight"].cpu() - codes).abs().max() <= (0 if layer.weight.device.type == "cpu" else 1)
    assert torch.equal(state["SCB"].cpu(), scales)
    assert state["weight_format"].dtype is torch.uint8
    assert state["weight_format"].item() == 0
    assert type(state["weight"]) is torch.Tensor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("threshold", [0.0, 6.0])
def test_a_layer_is_near_the_dense_one(dense, layer, threshold, dtype, device):
    layer.state.threshold = threshold
    x = torch.randn(2, 5, 64, device=device)
    x[..., 7] *= 20
    expected = dense.to(device)(x)
    y = layer(x.to(dtype))
    assert y.dtype is dtype
    assert (y - expected).abs().max() <= (0.02 if threshold else 0.2) * expected.abs().max()
    if threshold:
        assert 7 in layer.state.idx.tolist()


def test_a_layer_that_was_not_moved_says_so():
    with pytest.raises(InvalidArgument, match="is not quantized yet"):
        nn.Linear8bitLt(64, 40, has_fp16_weights=False)(torch.randn(1, 64))
    with pytest.raises(InvalidArgument, match="is not quantized yet"):
        nn.Embedding8bit(4, 8)(torch.tensor([1]))


@pytest.mark.parametrize("used", [False, True])
def test_state_dicts_go_both_ways(layer, used, device):
    x = torch.randn(3, 64, device=device)
    expected = layer(x) if used else copy.deepcopy(layer)(x)
    state = layer.state_dict()
    fresh = nn.Linear8bitLt(64, 40, has_fp16_weights=False)  # not quantized yet
    fresh.load_state_dict(state)
    assert torch.equal(fresh.to(device).eval()(x), expected)
    other = nn.Linear8bitLt(64, 40, has_fp16_weights=False).to(device).eval()
    if used:
        other(x)
    other.load_state_dict(state)
    assert torch.equal(other(x), expected)
    with torch.device("meta"):
        empty = nn.Linear8bitLt(64, 40, has_fp16_weights=False)
    empty.load_state_dict(state, assign=True)
    assert torch.equal(empty.eval()(x), expected)


def test_an_ordinary_weight_is_quantized_on_the_way_in(dense, layer):
    other = torch.nn.Linear(64, 40)
    layer.load_state_dict(other.state_dict())
    assert torch.equal(layer.state_dict()["SCB"].cpu(), codes_of(other.weight)[1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"SCB": None}, "without its scales"),
        ({"SCB": torch.ones(7)}, "has 7 scales"),
        ({"weight_format": torch.tensor(2)}, "codes of old versions"),
        ({"weight": torch.ones(2, 64, dtype=torch.int8)}, "has shape"),
    ],
)
def test_wrong_checkpoints_are_refused(layer, change, words):
    state = {k: v for k, v in (layer.state_dict() | change).items() if v is not None}
    with pytest.raises(RuntimeError, match=words):
        layer.load_state_dict(state)


def test_copies(layer, device):
    x = torch.randn(3, 64, device=device)
    for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):  # noqa: S301 - our own bytes
        assert torch.equal(made(x), layer(x))
        assert made.weight.data_ptr() != layer.weight.data_ptr()
    again = copy.deepcopy(layer).half().to(device)
    assert again.weight.dtype is torch.int8
    assert torch.equal(again.state_dict()["SCB"], layer.state_dict()["SCB"])


@pytest.mark.parametrize("training", [False, True])
def test_gradients(dense, layer, training, device):
    layer.train(training)
    x = torch.randn(4, 3, 64, device=device, requires_grad=True)
    y = layer(x)
    grad = torch.randn_like(y)
    y.backward(grad)
    state = layer.state_dict()
    weight = state["weight"].float() * state["SCB"].unsqueeze(1) / 127
    torch.testing.assert_close(x.grad, grad @ weight, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(layer.bias.grad, grad.sum((0, 1)), rtol=1e-4, atol=1e-4)
    assert layer.weight.grad is None


def test_a_weight_in_16_bits_learns(dense, device):
    layer = nn.Linear8bitLt(64, 40, threshold=6.0)
    layer.load_state_dict(dense.state_dict())
    layer = layer.to(device)
    assert list(layer.state_dict()) == ["weight", "bias"]
    x = torch.randn(6, 64, device=device)
    layer(x).sum().backward()
    expected = torch.ones(40, 6, device=device) @ x
    assert (layer.weight.grad - expected).abs().max() <= 0.05 * expected.abs().max()


def test_products_without_a_layer(dense, device):
    x, weight = torch.randn(5, 64, device=device), dense.weight.detach().to(device)
    state = nn.MatmulLtState(threshold=6.0, is_training=False)
    y = nn.matmul_8bit(x, weight, state=state)
    assert state.CB.dtype is torch.int8
    assert (y - x @ weight.t()).abs().max() <= 0.05 * y.abs().max()
    out = torch.empty_like(y)
    assert nn.matmul_8bit(x, weight, out=out, state=state) is out
    assert torch.equal(out, y)
    assert nn.matmul_8bit(x[:0], weight).shape == (0, 40)


def test_embedding(device):
    table = nn.Embedding8bit(20, 32)
    dense = table.weight.data.clone()
    table = table.to(device)
    places = torch.tensor([[1, 2], [3, 19]], device=device)
    found = table(places)
    assert (found.cpu() - dense[places.cpu()]).abs().max() <= 0.01 * dense.abs().max()
    again = nn.Embedding8bit(20, 32)
    again.load_state_dict(table.state_dict())
    assert torch.equal(again.to(device)(places), found)
    assert table.half()(places).dtype is torch.float16


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("in_16_bits", [False, True])
def test_a_copy_for_another_device_has_a_state_of_its_own(dense, device, called, in_16_bits):
    """As DataParallel makes it: tensors of parameters are copied, all else is the same object."""
    made = nn.Linear8bitLt(64, 40, has_fp16_weights=in_16_bits)
    made.load_state_dict(dense.state_dict())
    made, x = made.to("cpu").eval(), torch.randn(3, 64)
    if called:
        made(x)
    replica = made._replicate_for_data_parallel()
    weight = made.weight.as_subclass(torch.Tensor)
    replica.weight = weight.mul(1).to(device) if in_16_bits else weight.to(device)  # no leaf, as torch's copy
    replica.bias = made.bias.detach().to(device)
    expected = made(x)
    torch.testing.assert_close(replica(x.to(device)).cpu(), expected, rtol=1e-3, atol=1e-3)
    assert replica.state is not made.state
    assert str(made.state.SCB.device) == "cpu"
    assert torch.equal(made(x), expected)


@pytest.mark.gpu
def test_data_parallel():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    layers = [nn.Linear8bitLt(64, 40, has_fp16_weights=False), nn.Linear8bitLt(40, 24)]
    model, x = torch.nn.Sequential(*layers).half().to("cuda").eval(), torch.randn(6, 64, device="cuda").half()
    torch.testing.assert_close(torch.nn.DataParallel(model, [0, 1])(x), model(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("threshold", [0.0, 3.0])
def test_a_weight_learns_from_columns_with_outliers(dense, seed, device, threshold):
    """By codes of both factors, as on a GPU; a column with an outlier counts once, whatever else is in it."""
    product = importlib.import_module("kernelwright.nn.matmul_8bit")  # `nn` has a function of that name
    torch.manual_seed(seed)
    weight = dense.weight.detach().to(device).half().requires_grad_()
    x, grad = torch.randn(30, 64, device=device).clamp(-2, 2).half(), torch.randn(30, 40, device=device).half()
    x[4, 7], x[9, 7], x[2, 50] = 6.0, -5.0, 4.0
    state = product.MatmulLtState(threshold=threshold)
    product.MatMul8bit.apply(x, weight, None, state).backward(grad)
    expected = grad.double().t() @ x.double()
    for columns in ([7, 50], [0, 1, 2, 63]):
        far = (weight.grad.double() - expected)[:, columns].norm() / expected[:, columns].norm()
        assert far <= 0.02
