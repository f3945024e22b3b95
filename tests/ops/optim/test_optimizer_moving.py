# SPDX-License-Identifier: MIT
"""Steps whose number lies on the device: rates that are tensors, CUDA graphs, torch.compile; the bits of other steps."""

from __future__ import annotations

import copy
import ctypes

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from kernelwright import _library, errors, optim
from kernelwright.ops.optim._optimizer import Step, numbers_maker
from kernelwright.optim import _moving
from tests.ops.optim.test_optimizers import FAMILIES, each_family, gradients, parameters
from tests.python.tensors import torch

pytestmark = pytest.mark.torch


def made(name, rate, device="cpu", dtype=torch.float32, **more):
    """The optimizer of an own copy of the parameters."""
    params = parameters(dtype, device)
    settings = {**FAMILIES[name.removesuffix("8bit").removesuffix("32bit")], "lr": rate, **more}
    return params, getattr(optim, name)(params, **settings)


def same(one, other, first, second):
    """Parameters and states to the bit, and the numbers of the steps."""
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a, b)
        for key, value in first.state[a].items():
            found = second.state[b][key]
            assert int(value) == int(found) if key == "step" else torch.equal(value, found), key


@each_family
@pytest.mark.parametrize("bits", ["8bit", "32bit"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rate_that_is_a_tensor(name, bits, dtype, device):
    """It may change, and AdEMAMix's alpha and beta3 grow meanwhile."""
    rate = torch.tensor(0.25, device=device)
    one, first = made(name + bits, rate, device, dtype)
    other, second = made(name + bits, 0.25, device, dtype)
    for number in range(4):
        for held, which in ((one, first), (other, second)):
            gradients(held, number)
            which.step()
        rate.mul_(0.5)
        second.param_groups[0]["lr"] *= 0.5
        same(one, other, first, second)
    assert all(isinstance(state["step"], _moving.Moving) for state in first.state.values())


@pytest.mark.parametrize("coded", [False, True])
def test_the_same_calls_are_the_next_step(coded):
    """With the same arguments: what a CUDA graph replays."""
    library = _library.load()
    make = numbers_maker(library)
    name = "kw_optimizer_update_8bit_blockwise" if coded else "kw_optimizer_update_32bit"
    generator = torch.Generator().manual_seed(1)
    state = torch.randint(128, 256, (600,), dtype=torch.uint8) if coded else torch.rand(600, generator=generator)
    given = [torch.randn(600, generator=generator), torch.randn(600, generator=generator), state, state]
    given += [torch.ones(3), torch.ones(3)]
    maps = [optim.create_dynamic_map(), optim.create_dynamic_map(signed=False)] if coded else []
    sides = [[tensor.clone() for tensor in given] for _ in range(2)]
    rows = [library.structs["kw_optimizer_tensor"](*(t.data_ptr() for t in side), 600) for side in sides]
    memory, numbers = torch.zeros(8, dtype=torch.int64), Step(7, 0.01, 0.9, 0.99, 0.0, 0.0, 1e-6, 0.1, 1.0)
    tables, held = [table.data_ptr() for table in maps], make("adam", numbers)
    for step in (7, 8, 9):
        again = memory.data_ptr(), None, None, None, ctypes.addressof(held)
        library.call("kw_optimizer_advance", library.constants["KW_CPU"], None, *again)
        head = library.constants["KW_CPU"], None
        moved = memory.data_ptr(), ctypes.addressof(held)
        library.call(f"{name}_moving", *head, ctypes.addressof(rows[0]), 1, *tables, *moved, 0)
        eager = make("adam", numbers._replace(step=step))
        library.call(f"{name}_many", *head, ctypes.addressof(rows[1]), 1, *tables, ctypes.addressof(eager), 0)
        for a, b in zip(*sides, strict=True):
            assert torch.equal(a, b)
    assert memory[0] == 3


def test_a_state_dict_has_the_number():
    """As bitsandbytes has it, and a step goes on from it either way."""
    rate = torch.tensor(0.1)
    one, first = made("AdamW8bit", rate)
    for number in range(3):
        gradients(one, number)
        first.step()
    saved = copy.deepcopy(first.state_dict())
    assert [state["step"] for state in saved["state"].values()] == [3] * len(one)
    assert all(type(state["step"]) is int for state in saved["state"].values())
    others = [made("AdamW8bit", again) for again in (torch.tensor(0.1), 0.1)]
    for held, which in others:
        with torch.no_grad():
            for a, b in zip(one, held, strict=True):
                b.copy_(a)
        rate = which.param_groups[0]["lr"]
        which.load_state_dict(saved)
        which.param_groups[0]["lr"] = rate
    for held, which in ((one, first), *others):
        gradients(held, 9)
        which.step()
    for held, which in others:
        same(one, held, first, which)


def test_parameters_without_a_gradient_stay_behind():
    """Those that took a step together part where some have no gradient."""
    one, first = made("Adam8bit", torch.tensor(0.1))
    other, second = made("Adam8bit", 0.1)
    for number in range(5):
        for held, which in ((one, first), (other, second)):
            gradients(held, number)
            for left_out in range(number % 3):
                held[left_out + 1].grad = None
            which.step()
    second.param_groups[0]["lr"] = first.param_groups[0]["lr"]
    same(one, other, first, second)
    assert len({int(state["step"]) for state in first.state.values()}) > 1


def test_groups_have_rates_of_their_own():
    params, others = parameters(), parameters()
    rates = torch.tensor(0.1), torch.tensor(0.3)
    first = optim.Lion([{"params": params[:3], "lr": rates[0]}, {"params": params[3:], "lr": rates[1]}])
    second = optim.Lion([{"params": others[:3], "lr": float(rates[0])}, {"params": others[3:], "lr": float(rates[1])}])
    for number in range(2):
        for held, which in ((params, first), (others, second)):
            gradients(held, number)
            which.step()
    same(params, others, first, second)


@pytest.mark.parametrize("name", ["AdamW8bit", "AdEMAMix32bit"])
def test_compiled(name):
    """No step is compiled anew for its number."""
    torch.compiler.reset()
    one, first = made(name, torch.tensor(0.1))
    other, second = made(name, 0.1)
    compiled = torch.compile(first.step)
    for number in range(12):  # more than torch compiles one function for
        gradients(one, number)
        gradients(other, number)
        compiled()
        second.step()
    same(one, other, first, second)
    torch.compiler.reset()


@each_family
@pytest.mark.parametrize("bits", ["8bit", "32bit"])
@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.gpu
def test_a_captured_step(name, bits, tensor):
    """Replays, and steps between them, are one after the other."""
    one, first = made(name + bits, torch.tensor(0.1, device="cuda") if tensor else 0.1, "cuda")
    other, second = made(name + bits, 0.1, "cuda")
    gradients(one, 0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        first.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first.step()
    fresh = parameters(device="cuda")
    for number in range(1, 5):
        gradients(fresh, number)
        for p, drawn in zip(one, fresh, strict=True):
            p.grad.copy_(drawn.grad)
        first.step() if number == 3 else graph.replay()
    for number in range(5):
        gradients(other, number)
        second.step()
    same(one, other, first, second)


def test_what_cannot_be_captured(monkeypatch):
    """Refused, since each replay would repeat the step's number."""
    params, optimizer = made("Adam", 0.1)
    gradients(params, 0)
    monkeypatch.setattr(_moving, "captured", lambda _: True)
    with pytest.raises(errors.Unsupported, match="has no states yet; take a step before the graph is captured"):
        optimizer.step()
    monkeypatch.undo()
    optimizer.step()
    limited = optim.LAMB(params, lr=0.1)
    limited.step()
    monkeypatch.setattr(_moving, "captured", lambda _: True)
    with pytest.raises(errors.Unsupported, match=r"limited \(max_unorm\)"):
        limited.step()
    with pytest.raises(errors.Unsupported, match="was at another step than those before"):
        optimizer.step()
