# SPDX-License-Identifier: MIT
"""Steps by a table that is kept from the step before: the same bits as without, whatever was changed in between."""

from __future__ import annotations

import copy

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from kernelwright import optim
from kernelwright.optim import _kept
from tests.python.tensors import torch

pytestmark = pytest.mark.torch

SHAPES = [(64, 64), (257, 33), (4096,), (5,)]


def made():
    generator = torch.Generator().manual_seed(5)
    params = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]
    groups = [{"params": params[:2]}, {"params": params[2:], "weight_decay": 0.0}]
    return params, optim.AdamW8bit(groups, lr=0.01)


def gradients(params, number):
    generator = torch.Generator().manual_seed(number)
    for p in params:
        p.grad = torch.randn(p.shape, generator=generator)


def no_gradient(params, _):
    params[1].grad = None


def other_memory(params, _):
    params[0].data = params[0].data.clone()


def smaller(params, optimizer):
    params[3].data, params[3].grad = params[3].data[:3], None
    params[3].grad = torch.ones(3)
    optimizer.state[params[3]].clear()


def not_contiguous(params, _):
    params[0].grad = params[0].grad.t().contiguous().t()


def scheduled(_, optimizer):
    optimizer.param_groups[0]["lr"] = 0.003


def betas(_, optimizer):
    optimizer.param_groups[1]["betas"] = (0.8, 0.9)


def state_replaced(params, optimizer):
    optimizer.state[params[0]]["state1"] = torch.full_like(optimizer.state[params[0]]["state1"], 7)


def state_moved(params, optimizer):
    state = optimizer.state[params[2]]["absmax1"]
    state.data = state.data * 2


def loaded(_, optimizer):
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def step_changed(params, optimizer):
    optimizer.state[params[1]]["step"] = 30


def forgotten(_, optimizer):
    optimizer.state.clear()


def another_group(_, optimizer):
    p = torch.nn.Parameter(torch.ones(300))
    p.grad = torch.ones(300)
    optimizer.add_param_group({"params": [p]})


def rate_in_memory(_, optimizer):
    optimizer.param_groups[0]["lr"] = torch.tensor(0.02)


def nothing(*_):
    pass


CHANGES = (
    no_gradient, other_memory, smaller, not_contiguous, scheduled, betas, state_replaced, state_moved, loaded,
    step_changed, forgotten, another_group, rate_in_memory, nothing,
)  # fmt: skip
STAYS = {scheduled, betas, nothing}  # where only numbers changed


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_same_bits_whatever_changes(change, monkeypatch):
    mine, other = made(), made()
    taken = []
    for number in range(8):
        for params, optimizer in (mine, other):
            gradients(params, number) if change is not smaller or number < 4 else None
            if number == 4:
                change(params, optimizer)
            with monkeypatch.context() as patch:
                if optimizer is other[1]:
                    patch.setattr(_kept, "_may", lambda _: False)
                optimizer.step()
            if optimizer is mine[1]:
                taken.append(optimizer._kept._others == 0)
    assert taken[1:4] == [True] * 3
    assert taken[4] is (change in STAYS)
    for a, b in zip(mine[0], other[0], strict=True):
        assert torch.equal(a, b)
        one, two = (optimizer.state[p] for (_, optimizer), p in ((mine, a), (other, b)))
        assert one.keys() == two.keys()
        assert int(one.pop("step")) == int(two.pop("step"))
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_settings_of_single_parameters_count_at_once():
    params, optimizer = made()
    for number in range(3):
        gradients(params, number)
        optimizer.step()
    before, others = params[0].detach().clone(), params[1].detach().clone()
    manager = optim.GlobalOptimManager.get_instance()
    try:
        manager.override_config(params[0], "lr", 0.0)
        optimizer.step()
    finally:
        manager.initialize()
    assert torch.equal(params[0], before)
    assert not torch.equal(params[1], others)


def test_tables_are_tried_ever_more_rarely_where_they_never_fit(monkeypatch):
    params, optimizer = made()
    tried = []
    found = _kept._batches
    monkeypatch.setattr(_kept, "_batches", lambda optimizer: tried.append(1) or found(optimizer))
    for number in range(32):
        gradients(params, number)
        params[number % 2].grad = None
        optimizer.step()
    assert len(tried) == 6


def test_a_saved_parameter_is_noticed():
    params, optimizer = made()
    for number in range(3):
        gradients(params, number)
        optimizer.step()
    loss = (params[2] ** 2).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
