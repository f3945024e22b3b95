# SPDX-License-Identifier: MIT
"""BitLinear: numbers, gradients, state dicts, whole models, several processes."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist
import torch.multiprocessing as mp

from kernelwright import errors
from kernelwright.nn import (
    BitLinear,
    ColumnParallelBitLinear,
    RowParallelBitLinear,
    ternarize_,
    unpack_ternary,
)


class OfTorch(torch.autograd.Function):
    """Straight through."""

    @staticmethod
    def forward(*arguments):
        return arguments[-1]

    @staticmethod
    def backward(*arguments):
        return arguments[-1], None


def by_torch(x, weight, bias=None):
    """The paper's layer, in float32 or float64."""
    scale = weight.abs().mean().clamp(min=1e-5)
    ternary = (weight / scale).round().clamp(-1, 1) * scale
    absmax = x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
    codes = (x * (127 / absmax)).round().clamp(-128, 127) / (127 / absmax)
    return torch.nn.functional.linear(OfTorch.apply(x, codes), OfTorch.apply(weight, ternary), bias)


def layer_of(n, k, *, bias=False, dtype=torch.float32, **settings):
    torch.manual_seed(5)
    return BitLinear(k, n, bias, dtype=dtype, **settings)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 40), (3, 7, 130), (50, 256)])
def test_training_is_straight_through(shape, bias):
    layer = layer_of(24, shape[-1], bias=bias)
    if bias:
        torch.nn.init.normal_(layer.bias)
    x = torch.randn(shape, requires_grad=True)
    expected = by_torch(x, layer.weight, layer.bias)
    grad = torch.randn(expected.shape)
    wanted = torch.autograd.grad(expected, [x, *layer.parameters()], grad)
    found = layer(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(torch.autograd.grad(found, [x, *layer.parameters()], grad), wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def test_a_step_of_training_changes_the_loss():
    layer, x = layer_of(16, 32), torch.randn(64, 32)
    wanted = x @ torch.randn(32, 16) / 4
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = (layer(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("per_row", [False, True])
def test_packed_is_what_training_computes(dtype, per_row):
    layer, x = layer_of(40, 130, dtype=dtype, per_row=per_row), torch.randn(9, 130).to(dtype)
    with torch.no_grad():
        before = layer(x)
        after = layer.pack_()(x)
    assert layer.weight is None
    assert not list(layer.parameters())
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_a_packed_layer_passes_gradients():
    layer, x = layer_of(16, 40).pack_(), torch.randn(3, 40, requires_grad=True)
    layer(x).sum().backward()
    dense = unpack_ternary(layer.packed, 16, 40).float() * layer._factor()
    torch.testing.assert_close(x.grad, dense.sum(0).expand(3, 40), rtol=1e-5, atol=1e-6)


def test_what_packing_leaves_to_train_has_gradients():
    layer, x = layer_of(16, 40, bias=True, rms_norm_eps=1e-5).pack_(), torch.randn(3, 40)
    with torch.no_grad():
        expected = layer(x)
    found = layer(x)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    found.sum().backward()
    torch.testing.assert_close(layer.bias.grad, torch.full((16,), 3.0))
    assert layer.rms_norm.weight.grad.norm() > 0


@pytest.mark.parametrize("divides", [True, False])
def test_state_dicts_of_transformers(divides):
    n, k = 32, 72
    stored, scale = torch.randint(0, 3, (4, n // 4, k), dtype=torch.uint8), torch.tensor([0.37], dtype=torch.bfloat16)
    state = {"weight": stored[0] | stored[1] << 2 | stored[2] << 4 | stored[3] << 6, "weight_scale": scale}
    layer = BitLinear(k, n, packed=True, divides=divides, dtype=torch.bfloat16)
    layer.load_state_dict(state)
    x = torch.randn(5, k)
    dense = (torch.cat(list(stored)).float() - 1) * (1 / scale.float() if divides else scale.float())
    absmax = x.abs().amax(-1, keepdim=True)
    expected = (x * (127 / absmax)).round() * absmax / 127 @ dense.t()
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)
    back = layer.state_dict()
    assert set(back) == set(state)
    assert all(torch.equal(back[name], state[name]) and back[name].dtype == state[name].dtype for name in state)
    trained = BitLinear(k, n, divides=divides)
    trained.load_state_dict(state)
    torch.testing.assert_close(trained(x), layer(x), rtol=0, atol=0)
    layer.half()
    assert layer.state_dict()["weight_scale"].dtype == torch.bfloat16


def test_a_state_dict_that_does_not_fit():
    layer = BitLinear(72, 32, packed=True)
    with pytest.raises(RuntimeError, match=r"is \(8, 71\) with 1 scales in the checkpoint, of a layer of 32 x 72"):
        layer.load_state_dict({"weight": torch.zeros(8, 71, dtype=torch.uint8), "weight_scale": torch.ones(1)})
    with pytest.raises(RuntimeError, match="weight_scale"):
        layer.load_state_dict({"weight": torch.zeros(8, 72, dtype=torch.uint8)})


def test_a_norm_before_it():
    torch.manual_seed(1)
    layer = BitLinear(64, 16, rms_norm_eps=1e-5)
    torch.nn.init.uniform_(layer.rms_norm.weight, 0.5, 1.5)
    x = torch.randn(6, 64)
    with torch.no_grad():
        apart = layer(x)
        torch.testing.assert_close(layer.pack_()(x), apart, rtol=2e-2, atol=2e-2)


def test_a_whole_model():
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    weight, x = model[0].weight, torch.randn(4, 32)
    assert ternarize_(model, skip=["2"]) is model
    assert isinstance(model[0], BitLinear)
    assert model[0].weight is weight
    torch.testing.assert_close(model[0](x), by_torch(x, weight, model[0].bias), rtol=1e-4, atol=1e-5)
    model(x).sum().backward()
    assert weight.grad is not None
    packed = ternarize_(torch.nn.Sequential(torch.nn.Linear(32, 64)), packed=True)
    assert packed[0].weight is None
    with pytest.raises(errors.InvalidArgument, match=r"no torch\.nn\.Linear"):
        ternarize_(model, skip=["2"])


def test_in_autocast_and_compiled():
    layer, x = layer_of(24, 40), torch.randn(3, 40)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    explained = torch._dynamo.explain(layer.pack_())(x)
    assert explained.graph_break_count == 0


def _processes(rank, world, port, kind, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    try:
        results.put((rank, _KINDS[kind](rank, world)))
    finally:
        dist.destroy_process_group()


def _tensor_parallel(rank, world):
    up, down = layer_of(96, 64, bias=True).pack_(), layer_of(64, 96, bias=True).pack_()
    torch.manual_seed(9)
    torch.nn.init.normal_(up.bias), torch.nn.init.normal_(down.bias)
    x = torch.randn(6, 64)
    with torch.no_grad():
        whole = up(x)
        both = down(whole)
    first = ColumnParallelBitLinear(up)
    part = first(x)
    share = 96 // world
    gathered = ColumnParallelBitLinear(up, gather=True)(x)
    rows = ColumnParallelBitLinear(up, gather=True, rows=True)(torch.cat([x] * world)[6 * rank : 6 * rank + 6])
    return [
        torch.equal(part, whole[:, share * rank : share * (rank + 1)]),
        torch.equal(gathered, whole),
        torch.equal(rows, torch.cat([whole] * world)),
        torch.equal(RowParallelBitLinear(down)(part), both),
    ]


def _data_parallel(rank, world):
    layer = layer_of(24, 40)
    torch.manual_seed(9)
    x = torch.randn(4 * world, 40)
    layer(x).square().mean().backward()
    wanted = layer.weight.grad.clone()
    layer.weight.grad = None
    model = torch.nn.parallel.DistributedDataParallel(layer)
    model(x[4 * rank : 4 * rank + 4]).square().mean().backward()
    return [torch.allclose(layer.weight.grad, wanted, rtol=1e-4, atol=1e-6)]


_KINDS = {"tensor": _tensor_parallel, "data": _data_parallel}


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("world", [2, 4])
def test_several_processes(world, kind):
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    context = mp.get_context("spawn")
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    results = context.SimpleQueue()
    processes = [context.Process(target=_processes, args=(rank, world, port, kind, results)) for rank in range(world)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * world
    said = dict(results.get() for _ in range(world))
    assert all(all(each) for each in said.values()), said
