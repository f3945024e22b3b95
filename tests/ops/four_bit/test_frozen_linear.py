# SPDX-License-Identifier: MIT
"""The short way of 4-bit layers through autograd gives what the operator gives, and steps aside where it must."""

from __future__ import annotations

import pytest

from kernelwright import errors

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.torch


@pytest.fixture
def layer(seed):
    from kernelwright import nn

    torch.manual_seed(seed)
    return nn.LinearNF4(64, 48).to("cpu")


def by_the_operator(layer, x):
    from kernelwright.nn import _four_bit

    state = layer.weight.quant_state
    op = torch.ops.kernelwright.matmul_4bit.nested
    scales = _four_bit._scales(state)
    return op(x, layer.weight, *scales, layer.bias.to(x.dtype), 48, state.blocksize, state.quant_type)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_values_and_gradients(layer, dtype):
    x = torch.randn(2, 5, 64, dtype=dtype, requires_grad=True)
    grad = torch.randn(2, 5, 48, dtype=dtype)
    y, expected = layer(x), by_the_operator(layer, x)
    assert torch.equal(y, expected)
    found = torch.autograd.grad(y, (x, layer.bias), grad)
    for one, other in zip(found, torch.autograd.grad(expected, (x, layer.bias), grad), strict=True):
        assert one.norm() > 0
        assert torch.equal(one, other)


def test_derivatives_of_derivatives(layer):
    x = torch.randn(3, 64, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, x)
    assert torch.autograd.gradgradcheck(layer, x)


def test_what_many_rows_on_a_gpu_take(layer, monkeypatch):
    """The weight is dequantized, and torch multiplies: the same numbers, by another order of sums."""
    from kernelwright.nn import _frozen_linear

    x = torch.randn(2, 5, 64, requires_grad=True)
    expected = layer(x)
    monkeypatch.setattr(_frozen_linear, "_is_for_torch", lambda _: True)
    calls = []
    linear = torch.nn.functional.linear
    monkeypatch.setattr(torch.nn.functional, "linear", lambda *a: (calls.append(1), linear(*a))[1])
    y = layer(x)
    assert calls == [1]
    torch.testing.assert_close(y, expected)
    grad = torch.randn_like(y)
    torch.testing.assert_close(torch.autograd.grad(y, x, grad), torch.autograd.grad(expected, x, grad))


def test_frozen_inputs_record_nothing(layer):
    layer.requires_grad_(False)
    assert not layer(torch.randn(3, 64)).requires_grad
    x = torch.randn(3, 64, requires_grad=True)
    with torch.no_grad():
        assert not layer(x).requires_grad
    assert layer(x).requires_grad


def test_transforms_work_and_dual_numbers_are_refused_in_words(layer):
    x = torch.randn(3, 64)
    wanted = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(layer(wanted).pow(2).sum(), wanted)
    torch.testing.assert_close(torch.func.grad(lambda x: layer(x).pow(2).sum())(x), expected)
    with pytest.raises(errors.Unsupported, match="has no forward-mode derivative"):
        torch.func.jvp(layer, (x,), (x,))


def test_backward_within_autocast(layer):
    """The gradient keeps the type of the layer's input."""
    x = torch.randn(3, 64, requires_grad=True)
    y = layer(x)
    grad = torch.randn(3, 48)
    expected = torch.autograd.grad(y, x, grad, retain_graph=True)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad(y, x, grad)[0]
    assert torch.equal(found, expected)


def test_in_a_graph_it_is_the_operator(layer):
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, backend=counter, fullgraph=True)
    x = torch.randn(3, 64, requires_grad=True)
    grad = torch.randn(3, 48)
    y = compiled(x)
    assert counter.frame_count == 1
    assert any("matmul_4bit" in str(node.target) for node in counter.graphs[0].graph.nodes)
    assert torch.equal(y, layer(x))
    assert torch.equal(torch.autograd.grad(y, x, grad)[0], torch.autograd.grad(layer(x), x, grad)[0])
