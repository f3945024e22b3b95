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


@pytest.fixture
def norms(device):
    """kernelwright's and torch's module with the same random weight."""
    from kernelwright import nn

    def make(shape, **options):
        ours, theirs = nn.RMSNorm(shape, device=device, **options), torch.nn.RMSNorm(shape, device=device, **options)
        if theirs.weight is not None:
            torch.nn.init.normal_(theirs.weight)
        ours.load_state_dict(theirs.state_dict())
        theirs.load_state_dict(ours.state_dict())
        return ours, theirs

    return make


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("shape", "of_x"), SHAPES)
def test_same_as_torch(norms, shape, of_x, affine, eps, device):
    ours, theirs = norms(shape, eps=eps, elementwise_affine=affine)
    assert str(ours) == str(theirs)
    assert isinstance(ours, torch.nn.RMSNorm)
    x = (torch.randn(of_x, device=device) * 1e-3).requires_grad_()  # so small that eps matters
    again = x.detach().clone().requires_grad_()
    y, expected = ours(x), theirs(again)
    torch.testing.assert_close(y, expected, rtol=2e-6, atol=1e-7)
    gradient = torch.randn_like(y)
    y.backward(gradient)
    expected.backward(gradient)
    torch.testing.assert_close(x.grad, again.grad, rtol=1e-4, atol=1e-4 * float(again.grad.abs().max()))
    if affine:
        torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_types(norms, dtype, device):
    dtype = getattr(torch, dtype)
    ours, theirs = norms(64, dtype=dtype)
    x = torch.randn(7, 64, device=device).to(dtype)
    expected = torch.nn.RMSNorm(64, dtype=torch.float64, device=device)
    expected.weight.data.copy_(theirs.weight.data)
    exact = expected(x.double())
    eps = torch.finfo(dtype).eps
    assert ours(x).dtype == dtype
    assert ((ours(x).double() - exact).abs() <= 0.51 * eps * exact.abs() + 1e-7).all()


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


def test_wrong_shape(norms):
    for shape, of_x in ((8, (2, 9)), ((2, 4), (8,)), ((2, 4), (3, 8))):
        ours, _ = norms(shape)
        with pytest.raises(errors.InvalidArgument, match="but must end in"):
            ours(torch.randn(of_x))


def test_wrong_residual(norms):
    ours, _ = norms((2, 4))
    x = torch.randn(3, 2, 4)
    for shape in ((4,), (), (3, 8), (2, 3, 2, 4)):
        with pytest.raises(errors.InvalidArgument, match=r"residual has shape .* but x has \(3, 2, 4\)"):
            ours(x, torch.randn(shape))


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
