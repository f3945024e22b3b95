# SPDX-License-Identifier: MIT
"""linear beyond its record: what it refuses, its module, and torch's own layers beside it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import kernelwright
from kernelwright import _library, nn
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_what_lies_between_rows_has_no_part(dtype):
    room = torch.full((128, 160), float("nan"), dtype=dtype)
    x = room[:, :136]
    x.copy_(torch.randn(128, 136))
    assert kernelwright.linear(x, torch.randn(24, 136).to(dtype), None, "silu").isfinite().all()


# The C function has a CPU path of its own, which the operator leaves to torch.
SHAPES = ((1, 1, 1), (2, 3, 5), (3, 4, 16), (5, 9, 100), (8, 8, 33), (17, 65, 257), (4, 6, 0))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("activation", range(len(SAME)))
def test_the_c_function_on_a_cpu(dtype, activation):
    library = _library.load()
    torch.manual_seed(activation)
    kind, code = getattr(torch, dtype), library.constants[f"KW_{dtype.upper()}"]
    allowed = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.2e-2}[dtype]
    for m, n, k in SHAPES:
        x, weight, y = (torch.randn(rows, cols + 3).to(kind) for rows, cols in ((m, k), (n, k), (m, n)))
        bias = torch.randn(n).to(kind) if (m + n) % 2 else None
        before = y.clone()
        library.call(
            "kw_linear", library.constants["KW_CPU"], None, y.data_ptr(), n + 3, x.data_ptr(), k + 3,
            weight.data_ptr(), k + 3, bias.data_ptr() if bias is not None else None, m, n, k, activation, code,
        )  # fmt: skip
        sums = x[:, :k].double() @ weight[:, :k].double().t()
        expected = list(SAME.values())[activation](sums if bias is None else sums + bias.double())
        torch.testing.assert_close(y[:, :n].double(), expected, rtol=allowed, atol=allowed)
        assert torch.equal(y[:, n:], before[:, n:])


WRONG = {
    "activation": ("activation is 6; it must be one from KW_NO_ACTIVATION", {"activation": 6}),
    "dtype": ("dtype is 3; it must be KW_FLOAT32", {"dtype": 3}),
    "size": ("m is -1; it must not be negative", {"m": -1}),
    "memory": ("x is NULL", {"x": None}),
    "rows": ("y_stride is 2; rows of 3 elements that are written must not overlap", {"y_stride": 2}),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_c_function_refuses(what):
    library = _library.load()
    words, changed = WRONG[what]
    y, x, weight = torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(3, 4)
    given = {
        "device": library.constants["KW_CPU"], "stream": None, "y": y.data_ptr(), "y_stride": 3, "x": x.data_ptr(),
        "x_stride": 4, "weight": weight.data_ptr(), "weight_stride": 4, "bias": None, "m": 2, "n": 3, "k": 4,
        "activation": 0, "dtype": library.constants["KW_FLOAT32"],
    } | changed  # fmt: skip
    with pytest.raises(InvalidArgument, match=words):
        library.call("kw_linear", *given.values())


# --- gated --------------------------------------------------------------------------


@pytest.fixture
def gated_layer():
    torch.manual_seed(2)
    return torch.randn(5, 3, 16), torch.randn(14, 16), torch.randn(14)


def _gated(activation, x, weight, bias=None):
    gate, up = F.linear(x, weight, bias).chunk(2, -1)
    return SAME[activation](gate) * up


@pytest.mark.parametrize("activation", SAME)
def test_gated_is_torchs_layer_gate_and_product(gated_layer, activation):
    x, weight, bias = gated_layer
    for b in (bias, None):
        found = kernelwright.gated_linear(x, weight, b, activation)
        torch.testing.assert_close(found, _gated(activation, x, weight, b))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("activation", SAME)
def test_gradients_of_gated_are_torchs(gated_layer, activation, dtype):
    leaves = [tensor.to(dtype).requires_grad_() for tensor in gated_layer]
    found = torch.autograd.grad(kernelwright.gated_linear(*leaves, activation).square().sum(), leaves)
    expected = torch.autograd.grad(_gated(activation, *leaves).square().sum(), leaves)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("activation", SAME)
@pytest.mark.parametrize("bias", [True, False])
def test_a_gated_mlp(activation, bias):
    torch.manual_seed(3)
    mlp = nn.GatedMLP(12, 20, bias=bias, activation=activation, dtype=torch.float64)
    x = torch.randn(4, 12, dtype=torch.float64)
    inner = _gated(activation, x, mlp.gate_up_proj.weight, mlp.gate_up_proj.bias)
    torch.testing.assert_close(mlp(x), mlp.down_proj(inner))
    assert next(iter(mlp.state_dict())) == "gate_up_proj.weight"


def test_what_gated_refuses(gated_layer):
    x, weight, _ = gated_layer
    with pytest.raises(InvalidArgument, match="weight has 13 rows, but must have an even number"):
        kernelwright.gated_linear(x, weight[:13])
    with pytest.raises(InvalidArgument, match="gated_linear: activation is 'tanh'"):
        kernelwright.gated_linear(x, weight, None, "tanh")
    with pytest.raises(InvalidArgument, match="GatedMLP: activation is 'swish'"):
        nn.GatedMLP(3, 4, activation="swish")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("activation", range(len(SAME)))
def test_the_gated_c_function_on_a_cpu(dtype, activation):
    library = _library.load()
    torch.manual_seed(activation)
    kind, code = getattr(torch, dtype), library.constants[f"KW_{dtype.upper()}"]
    allowed = {"float32": 2e-3, "float16": 4e-3, "bfloat16": 1.2e-2}[dtype]  # of products of two long sums
    for m, n, k in SHAPES:
        x, weight, y = (torch.randn(rows, cols + 3).to(kind) for rows, cols in ((m, k), (2 * n, k), (m, n)))
        bias = torch.randn(2 * n).to(kind) if (m + n) % 2 else None
        before = y.clone()
        library.call(
            "kw_gated_linear", library.constants["KW_CPU"], None, y.data_ptr(), n + 3, x.data_ptr(), k + 3,
            weight.data_ptr(), k + 3, bias.data_ptr() if bias is not None else None, m, n, k, activation, code,
        )  # fmt: skip
        sums = x[:, :k].double() @ weight[:, :k].double().t()
        gate, up = (sums if bias is None else sums + bias.double()).chunk(2, -1)
        expected = list(SAME.values())[activation](gate) * up
        torch.testing.assert_close(y[:, :n].double(), expected, rtol=allowed, atol=allowed)
        assert torch.equal(y[:, n:], before[:, n:])
