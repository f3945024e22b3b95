# SPDX-License-Identifier: MIT
"""linear beyond its record: what it refuses, its module, and torch's own layers beside it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import kernelwright
from kernelwright import nn
from kernelwright.errors import InvalidArgument, InvalidDtype

pytestmark = pytest.mark.torch
F = torch.nn.functional
SAME = {
    None: lambda v: v,
    "relu": F.relu,
    "squared_relu": lambda v: F.relu(v) ** 2,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"),
}


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return torch.randn(5, 3, 16), torch.randn(7, 16), torch.randn(7)


@pytest.mark.parametrize("activation", SAME)
def test_it_is_torchs_layer_and_activation(layer, activation):
    x, weight, bias = layer
    for b in (bias, None):
        found = kernelwright.linear(x, weight, b, activation)
        torch.testing.assert_close(found, SAME[activation](F.linear(x, weight, b)))


@pytest.mark.parametrize("activation", SAME)
def test_gradients_are_torchs(layer, activation):
    leaves = [tensor.double().requires_grad_() for tensor in layer]
    found = torch.autograd.grad(kernelwright.linear(*leaves, activation).square().sum(), leaves)
    expected = torch.autograd.grad(SAME[activation](F.linear(*leaves)).square().sum(), leaves)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("activation", SAME)
def test_the_module_has_torchs_parameters(activation):
    torch.manual_seed(1)
    ours = nn.Linear(12, 9, activation=activation, dtype=torch.float64)
    torch.manual_seed(1)
    theirs = torch.nn.Linear(12, 9, dtype=torch.float64)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    x = torch.randn(4, 12, dtype=torch.float64)
    torch.testing.assert_close(ours(x), SAME[activation](theirs(x)))
    assert f"activation={activation}" in repr(ours)


REFUSED = {
    "an activation that is none": (InvalidArgument, "activation is 'tanh', but must be None, 'relu'", {"activation": "tanh"}),
    "x of no dimension": (InvalidArgument, r"x has shape \(\)", {"x": torch.zeros(())}),
    "a weight of three": (InvalidArgument, "weight has shape", {"weight": torch.zeros(1, 7, 16)}),
    "another depth": (InvalidArgument, r"weight has shape \(7, 15\)", {"weight": torch.zeros(7, 15)}),
    "another bias": (InvalidArgument, r"bias has shape \(6,\)", {"bias": torch.zeros(6)}),
    "another type": (InvalidDtype, "weight has dtype torch.float64", {"weight": torch.zeros(7, 16, dtype=torch.float64)}),
    "whole numbers": (InvalidDtype, "x has dtype torch.int64", {"x": torch.zeros(3, 16, dtype=torch.int64)}),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(layer, what):
    error, words, changed = REFUSED[what]
    given = {"x": layer[0], "weight": layer[1], "bias": layer[2], "activation": "silu", **changed}
    with pytest.raises(error, match=words):
        kernelwright.linear(**given)


def test_the_module_refuses_too():
    with pytest.raises(InvalidArgument, match="activation is 'swish', but must be None or one of relu"):
        nn.Linear(3, 4, activation="swish")
