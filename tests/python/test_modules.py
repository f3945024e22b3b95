# SPDX-License-Identifier: MIT
"""kernelwright.nn: in the place of torch's modules."""

from __future__ import annotations

import copy
import pickle

import pytest

from kernelwright import errors
from tests.python.tensors import torch

pytestmark = pytest.mark.torch

SHAPES = [(48, (5, 48)), ((48,), (2, 3, 48)), ([6, 8], (5, 6, 8)), ((2, 3, 8), (4, 2, 3, 8)), (16, (16,))]
EMPTY = [(0, (3, 0)), ((0, 16), (3, 0, 16)), ((4, 0), (4, 0)), (16, (0, 16)), ((2, 8), (0, 2, 8))]


@pytest.fixture(params=["RMSNorm", "LayerNorm"])
def norms(request, device):
    """kernelwright's and torch's module with the same random parameters."""
    from kernelwright import nn

    def make(shape, **options):
        ours, theirs = (getattr(home, request.param)(shape, device=device, **options) for home in (nn, torch.nn))
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter)
        ours.load_state_dict(theirs.state_dict())
        theirs.load_state_dict(ours.state_dict())
        return ours, theirs

    return make


@pytest.mark.parametrize("options", [{}, {"eps": 1e-3}, {"elementwise_affine": False}], ids=str)
@pytest.mark.parametrize(("shape", "of_x"), SHAPES)
def test_same_as_torch(norms, shape, of_x, options, device):
    ours, theirs = norms(shape, **options)
    assert str(ours) == str(theirs)
    assert isinstance(ours, type(theirs))
    x = (torch.randn(of_x, device=device) * 1e-3).requires_grad_()  # so small that eps matters
    again = x.detach().clone().requires_grad_()
    y, expected = ours(x), theirs(again)
    torch.testing.assert_close(y, expected, rtol=2e-6, atol=1e-6)
    gradient = torch.randn_like(y)
    y.backward(gradient)
    expected.backward(gradient)
    torch.testing.assert_close(x.grad, again.grad, rtol=1e-4, atol=1e-4 * float(again.grad.abs().max()))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-5)


def test_layer_norm_without_bias(device):
    from kernelwright import nn

    ours, theirs = (home.LayerNorm(24, bias=False, device=device) for home in (nn, torch.nn))
    assert str(ours) == str(theirs)
    x = torch.randn(3, 24, device=device)
    torch.testing.assert_close(ours(x), theirs(x), rtol=2e-6, atol=1e-6)


def test_the_default_eps_is_that_of_the_type_of_the_sums(device):
    from kernelwright import nn

    for dtype in (torch.float64, torch.float32, torch.float16):
        ours, theirs = (home.RMSNorm(24, device=device, dtype=dtype) for home in (nn, torch.nn))
        x = (torch.randn(3, 24, device=device, dtype=torch.float64) * 1e-4).to(dtype)  # so small that eps matters
        torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize(("shape", "of_x"), EMPTY, ids=str)
def test_nothing_to_normalise(norms, shape, of_x, device):
    """What torch's modules take: no rows, and rows of no elements."""
    ours, theirs = norms(shape)
    x, residual = torch.randn(of_x, device=device, requires_grad=True), torch.randn(of_x, device=device)
    for call in (ours, theirs):
        y = call(x)
        assert y.shape == x.shape
        y.sum().backward()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
    y, h = ours(x, residual)
    assert y.shape == h.shape == x.shape
    with torch.no_grad():
        assert ours(x, residual, inplace=True).shape == x.shape


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_types(norms, dtype, device):
    dtype = getattr(torch, dtype)
    ours, theirs = norms(64, dtype=dtype)
    x = torch.randn(7, 64, device=device).to(dtype)
    expected = type(theirs)(64, dtype=torch.float64, device=device)
    for a, b in zip(expected.parameters(), theirs.parameters(), strict=True):
        a.data.copy_(b.data)
    exact = expected(x.double())
    eps = torch.finfo(dtype).eps
    assert ours(x).dtype == dtype
    assert ((ours(x).double() - exact).abs() <= 0.51 * eps * exact.abs() + 2e-6).all()


def test_residual(norms, device):
    for shape, of_x in SHAPES:
        ours, theirs = norms(shape)
        x, residual = torch.randn(of_x, device=device), torch.randn(of_x, device=device)
        total = x + residual
        y, h = ours(x, residual)
        assert torch.equal(h, total)
        torch.testing.assert_close(y, theirs(total), rtol=2e-6, atol=1e-6)
        with torch.no_grad():
            assert torch.equal(ours(x, residual, inplace=True), y)
        assert torch.equal(residual, total)


def test_swiglu(device):
    from kernelwright import nn

    gate, up = (torch.randn(3, 40, device=device, requires_grad=True) for _ in range(2))
    module = nn.SwiGLU()
    assert str(module) == "SwiGLU()"
    assert not module.state_dict()
    expected = torch.nn.functional.silu(gate) * up
    torch.testing.assert_close(module(gate, up), expected, rtol=2e-6, atol=1e-6)
    torch.testing.assert_close(module(torch.cat([gate, up], -1)), expected, rtol=2e-6, atol=1e-6)
    wanted = torch.autograd.grad(expected.sum(), (gate, up))
    for a, b in zip(torch.autograd.grad(module(gate, up).sum(), (gate, up)), wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_wrong_shape(norms):
    for shape, of_x in ((8, (2, 9)), ((2, 4), (8,)), ((2, 4), (3, 8))):
        ours, _ = norms(shape)
        with pytest.raises(errors.InvalidArgument, match="but must end in"):
            ours(torch.randn(of_x))


def test_no_tensor(norms):
    for shape in (4, (2, 4), 0):
        ours, _ = norms(shape)
        with pytest.raises(errors.InvalidArgument, match="_norm: x is of type list, but must be a tensor"):
            ours([1.0, 2.0])
        with pytest.raises(errors.InvalidArgument, match="_norm: x is of type NoneType, but must be a tensor"):
            ours(None)
        with pytest.raises(errors.InvalidArgument, match="_norm: residual is of type float, but must be a tensor"):
            ours(torch.randn(3, 2, 4), 1.0)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested(norms, layout, device):
    ours, _ = norms(4)
    nested = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=layout, device=device)
    with pytest.raises(errors.Unsupported, match="x is a nested tensor"):
        ours(nested)
    with pytest.raises(errors.Unsupported, match="residual is a nested tensor"):
        ours(torch.randn(3, 4, device=device), nested)


def test_in_place_without_a_residual(norms):
    for shape in (4, (2, 4), (0,), (0, 4)):
        ours, _ = norms(shape)
        with torch.no_grad(), pytest.raises(errors.InvalidArgument, match="but residual is None"):
            ours(torch.randn(3, *ours.normalized_shape), inplace=True)


def test_no_dimension_to_normalise(norms):
    ours, _ = norms(())
    for x in (torch.tensor(1.0), torch.randn(3)):
        with pytest.raises(errors.InvalidArgument, match=r"normalized_shape is \(\), but must have"):
            ours(x)


def test_wrong_parameters(norms):
    """Of as many elements, but in another order: flattened they would fit."""
    for wrong in ((4, 2), (8,), (1, 2, 4)):
        ours, _ = norms((2, 4))
        for name, _ in list(ours.named_parameters()):
            ours.register_parameter(name, torch.nn.Parameter(torch.ones(wrong)))
        with pytest.raises(errors.InvalidArgument, match=r"weight has shape .* but must have \(2, 4\), as normalized"):
            ours(torch.randn(3, 2, 4))
    ours.weight = None
    if getattr(ours, "bias", None) is not None:
        with pytest.raises(errors.InvalidArgument, match="bias has shape"):
            ours(torch.randn(3, 2, 4))


def test_wrong_residual(norms):
    ours, _ = norms((2, 4))
    x = torch.randn(3, 2, 4)
    for shape in ((4,), (), (3, 8), (2, 3, 2, 4)):
        with pytest.raises(errors.InvalidArgument, match=r"residual has shape .* but x has \(3, 2, 4\)"):
            ours(x, torch.randn(shape))


def test_a_residual_that_no_view_flattens(norms, device):
    ours, _ = norms((2, 4))
    x, residual = torch.randn(3, 2, 4, device=device), torch.randn(3, 4, 2, device=device).transpose(1, 2)
    before = residual.clone()
    with torch.no_grad(), pytest.raises(errors.InvalidArgument, match="without a copy; make it contiguous"):
        ours(x, residual, inplace=True)
    assert torch.equal(residual, before)
    assert torch.equal(ours(x, residual)[1], x + residual)


def test_copies(norms, device):
    ours, _ = norms(32)
    x = torch.randn(3, 32, device=device)
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):  # noqa: S301
        assert torch.equal(other(x), ours(x))


def test_in_a_compiled_model(norms, device):
    ours, theirs = norms(32)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32, device=device), ours)
    torch._dynamo.reset()
    x = torch.randn(3, 32, device=device)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), theirs(model[0](x)), rtol=2e-6, atol=1e-6)
    compiled(x).sum().backward()
    assert ours.weight.grad is not None


def test_within_autocast(norms, device):
    """A layer gives bfloat16, parameters and the sum of residuals are float32."""
    ours, theirs = norms(64)
    layer, x = torch.nn.Linear(64, 64, device=device), torch.randn(5, 64, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        h = layer(x)
        y = ours(h)
        assert (h.dtype, y.dtype) == (torch.bfloat16, torch.bfloat16)
        both, total = ours(h, x)  # the sum stays in float32, y has the type of the layer's result
        assert (both.dtype, total.dtype) == (torch.bfloat16, torch.float32)
        assert torch.equal(total, h.float() + x)
        torch.testing.assert_close(both.float(), theirs(total), rtol=2**-8, atol=1e-6)
        again = x.clone()
        with torch.no_grad():
            assert torch.equal(ours(h, again, inplace=True), both)
        assert torch.equal(again, total)
        torch.testing.assert_close(y.float(), theirs(h.float()), rtol=2**-8, atol=1e-6)
        y.sum().backward()
    assert ours.weight.grad.dtype == torch.float32
    assert layer.weight.grad is not None
