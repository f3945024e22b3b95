# SPDX-License-Identifier: MIT
"""Optimizers whose update is limited, and those whose states are paged, beside plain torch."""

from __future__ import annotations

import copy
import math
import warnings

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import kernelwright  # noqa: F401 - registers the operators
from kernelwright import errors, optim
from kernelwright.optim import _paging
from tests.python.tensors import torch

pytestmark = pytest.mark.torch


def lamb(p, grads, lr, betas, eps, decay, most):
    """The definition, in float64."""
    w, m, v = p.double(), torch.zeros_like(p).double(), torch.zeros_like(p).double()
    for step, grad in enumerate(grads, 1):
        g, norm = grad.double(), w.norm()
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        under = math.sqrt(1 - betas[1] ** step)
        change = m / (v.sqrt() + eps * under)
        scale = min(1.0, float(most * norm / change.norm()))
        w = w * (1 - lr * decay) - lr * under / (1 - betas[0] ** step) * scale * change
    return w


@pytest.mark.parametrize("most", [1e-3, 0.5, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lamb(most, dtype, device):
    p = torch.nn.Parameter(torch.randn(70, 90, device=device).to(dtype))
    grads = [torch.randn_like(p) for _ in range(4)]
    expected = lamb(p.detach(), grads, 0.01, (0.9, 0.999), 1e-8, 0.1, most)
    held = optim.LAMB([p], lr=0.01, weight_decay=0.1, max_unorm=most)
    for grad in grads:
        p.grad = grad
        held.step()
    rounded = len(grads) * 2**-8 if dtype is torch.bfloat16 else 0.0  # to the parameter's type, once a step
    assert ((p.double() - expected).abs() <= 1e-5 + rounded * (expected.abs() + 0.05)).all()
    assert float(held.state[p]["unorm_vec"]) > 0


@pytest.mark.parametrize("most", [0.0, 1e-3, 0.02, 100.0])
def test_lars_is_the_one_in_torch(most, device):
    p = torch.nn.Parameter(torch.randn(70, 90, device=device))
    alike = torch.nn.Parameter(p.detach().clone())
    ours = optim.LARS([p], lr=0.1, momentum=0.9, weight_decay=0.01, max_unorm=most)
    plain = optim.PytorchLARS([alike], lr=0.1, momentum=0.9, weight_decay=0.01, max_unorm=most)
    for _ in range(4):
        p.grad = alike.grad = torch.randn_like(p)
        ours.step()
        plain.step()
    torch.testing.assert_close(p, alike, rtol=1e-5, atol=1e-6)


def test_without_a_limit_lamb_is_adam(device):
    p = torch.nn.Parameter(torch.randn(5000, device=device))
    for name, settings in {"LAMB": {"max_unorm": 1e6}, "LAMB8bit": {}, "LAMB32bit": {"max_unorm": 0.0}}.items():
        one, other = (torch.nn.Parameter(p.detach().clone()) for _ in range(2))
        ours = getattr(optim, name)([one], lr=0.01, **settings)
        adam = getattr(optim, name.replace("LAMB", "Adam"))([other], lr=0.01)
        for _ in range(3):
            one.grad = other.grad = torch.randn_like(p)
            ours.step()
            adam.step()
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_what_has_no_limit_refuses_one():
    params = [torch.nn.Parameter(torch.zeros(4))]
    with pytest.raises(errors.InvalidArgument, match=r"LAMB8bit only supports max_unorm=1\.0"):
        optim.LAMB8bit(params, max_unorm=0.5)
    with pytest.raises(errors.InvalidArgument, match="LAMB8bit does not support amsgrad=True"):
        optim.LAMB8bit(params, amsgrad=True)
    with pytest.raises(errors.Unsupported, match="bias_correction=False"):
        optim.LAMB(params, bias_correction=False)
    with pytest.raises(errors.Unsupported, match="PytorchLARS does"):
        optim.LARS(params, 0.1, 0.9, nesterov=True)


# --- paged states -----------------------------------------------------------------


def test_groups_of_paged_states_fit():
    """In order, none left out, none larger than the buffer unless it is one parameter alone."""
    sizes = [100, 1000, 300, 5000, 20, 700]
    members = [
        (index, {"state1": torch.zeros(n), "state2": torch.zeros(n, dtype=torch.uint8)})
        for index, n in enumerate(sizes)
    ]
    groups = list(_paging.grouped(members, 8192))
    assert [index for group in groups for index, _ in group] == list(range(len(sizes)))
    for group in groups:
        held = sum(_paging._bytes(state) for _, state in group)
        assert held <= 8192 or len(group) == 1
    memory = torch.zeros(32768, dtype=torch.uint8)
    for group in groups:
        at = set()
        for (_, state), (whole, there) in zip(group, _paging.placed(memory, group), strict=True):
            for name, tensor in there.items():
                assert whole[name] is tensor
                assert (tensor.shape, tensor.dtype) == (state[name].shape, state[name].dtype)
                span = range(tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes)
                assert at.isdisjoint(span)
                at |= set(span)


def test_on_the_cpu_nothing_is_paged():
    p = torch.nn.Parameter(torch.randn(200_000))
    p.grad = torch.randn_like(p)
    held = optim.PagedAdamW8bit([p])
    with pytest.warns(UserWarning, match="states of parameters on the CPU are not paged"):
        held.step()
    assert not _paging.is_paged(held.state[p]["state1"])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["AdamW8bit", "AdamW32bit", "Lion8bit", "AdEMAMix8bit"])
def test_paged_is_as_unpaged(name):
    """The same numbers to the bit, with two buffers for states many times as large, over a state dict too."""
    shapes = [(300_000,), (1000, 500), (70,), (2000, 1000), (150_000,)]
    params = [torch.nn.Parameter(torch.randn(shape, device="cuda")) for shape in shapes]
    alike = copy.deepcopy(params)
    plain, paged = getattr(optim, name)(alike, lr=0.01), getattr(optim, f"Paged{name}")(params, lr=0.01)
    paged.page_bytes = 1 << 20
    for turn in range(4):
        for one, other in zip(params, alike, strict=True):
            one.grad = other.grad = torch.randn_like(one)
        plain.step()
        paged.step()
        for one, other in zip(params, alike, strict=True):
            assert torch.equal(one, other)
            for key, value in plain.state[other].items():
                found = paged.state[one][key]
                assert torch.equal(found.cuda(), value) if torch.is_tensor(value) else found == value
        if turn == 1:
            held = paged.state_dict()
            paged = getattr(optim, f"Paged{name}")(params, lr=0.01)
            paged.page_bytes = 1 << 20
            paged.load_state_dict(held)
    for one in params:
        state = paged.state[one]["state1"]
        assert _paging.is_paged(state) == (one.numel() >= _paging.FROM)
        assert state.is_pinned() if _paging.is_paged(state) else state.is_cuda


@pytest.mark.gpu
def test_paged_states_take_no_more_memory_than_they_may():
    params = [torch.nn.Parameter(torch.zeros(4 << 20, device="cuda")) for _ in range(8)]  # 16 MiB each
    for p in params:
        p.grad = torch.ones_like(p)
    held = optim.PagedAdamW32bit(params)  # 256 MiB of states
    held.page_bytes = 64 << 20
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        held.step()
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() - before <= held.page_bytes + (1 << 20)


def test_warnings_name_the_class():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = torch.nn.Parameter(torch.randn(10))
        p.grad = torch.ones_like(p)
        with pytest.raises(UserWarning, match="PagedLion"):
            optim.PagedLion([p]).step()
