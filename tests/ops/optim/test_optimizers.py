# SPDX-License-Identifier: MIT
"""kernelwright.optim: steps against the formulas in float64, one call for many tensors, state dicts, settings."""

from __future__ import annotations

import copy
import inspect

import pytest

pytest.importorskip("torch", reason="torch is not installed")  # kernelwright.optim is made of torch's classes

import kernelwright
from kernelwright import _library, errors, optim
from kernelwright.ops.optim import _optimizer
from kernelwright.optim import _many
from kernelwright.optim._base import WRAPPED
from tests.python.tensors import torch

pytestmark = pytest.mark.torch

FAMILIES = {
    "Adam": {"lr": 0.01},
    "AdamW": {"lr": 0.01},
    "AdEMAMix": {"lr": 0.01, "t_alpha": 10, "t_beta3": 10},
    "Lion": {"lr": 0.01, "weight_decay": 0.1},
    "SGD": {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1},
    "RMSprop": {"lr": 0.01},
    "Adagrad": {"lr": 0.01},
}
SHAPES = [(5,), (64, 64), (257, 33), (1,), (100, 100), (4096,), (4095,)]
each_family = pytest.mark.parametrize("name", FAMILIES)


def parameters(dtype=torch.float32, device="cpu", shapes=SHAPES):
    generator = torch.Generator().manual_seed(3)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype).to(device)) for shape in shapes]


def gradients(params, number):
    generator = torch.Generator().manual_seed(number)
    for p in params:
        p.grad = torch.randn(p.shape, generator=generator).to(p.dtype).to(p.device)


def trained(name, bits, steps=4, dtype=torch.float32, device="cpu", **more):
    params = parameters(dtype, device)
    optimizer = getattr(optim, f"{name}{bits}")(params, **FAMILIES[name], **more)
    for number in range(steps):
        gradients(params, number)
        optimizer.step()
    return params, optimizer


def exactly(name, steps=4):
    """The same in float64, by the formulas."""
    params = [p.detach().double() for p in parameters()]
    optimizer = getattr(optim, name)(parameters(), **FAMILIES[name])
    rule, group = optimizer.rule, optimizer.param_groups[0]
    held = [[torch.zeros_like(p) for _ in range(3)] for p in params]
    fresh = parameters()
    for number in range(steps):
        gradients(fresh, number)
        numbers = optimizer.numbers(optimizer.get_config(0, 0, group), number + 1)
        for p, f, states in zip(params, fresh, held, strict=True):
            p.copy_(_optimizer.update(rule, p, f.grad.double(), states, numbers))
    return params


DEFAULTS = {  # of bitsandbytes 0.50
    "Adam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0},
    "AdamW": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2},
    "AdEMAMix": {"lr": 1e-3, "betas": (0.9, 0.999, 0.9999), "alpha": 5.0, "eps": 1e-8, "weight_decay": 1e-2},
    "Lion": {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0},
    "SGD": {"momentum": 0, "weight_decay": 0},
    "RMSprop": {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0},
    "Adagrad": {"lr": 1e-2, "eps": 1e-10, "weight_decay": 0},
}


@each_family
@pytest.mark.parametrize("bits", ["", "8bit", "32bit"])
def test_defaults_are_those_of_bitsandbytes(name, bits):
    given = inspect.signature(getattr(optim, name + bits)).parameters
    assert {key: given[key].default for key in DEFAULTS[name]} == DEFAULTS[name]
    assert given["min_8bit_size"].default == 4096


@each_family
def test_32_bits_against_float64(name, device):
    found, _ = trained(name, "32bit", device=device)
    for a, b in zip(found, exactly(name), strict=True):
        torch.testing.assert_close(a.detach().double().cpu(), b, rtol=1e-5, atol=1e-5)


@each_family
def test_8_bits_stay_near(name, device):
    """Codes are coarse: what a step loses is small beside what it does."""
    found, optimizer = trained(name, "8bit", device=device)
    moved = 0.0
    for a, b, start in zip(found, exactly(name), parameters(), strict=True):
        error, moved = (a.detach().double().cpu() - b).abs().mean(), (b - start).abs().mean().item()
        assert error < 0.2 * moved
    kinds = {optimizer.state[p]["state1"].dtype for p in found}
    assert kinds == {torch.uint8, torch.float32}, "tensors below min_8bit_size have states of 32 bits"
    assert optimizer.state[found[5]]["state1"].dtype is torch.uint8, "from min_8bit_size on they are coded"
    assert optimizer.state[found[6]]["state1"].dtype is torch.float32


@each_family
@pytest.mark.parametrize("bits", ["8bit", "32bit"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_many_at_once_are_each_alone(name, bits, dtype, device, monkeypatch):
    """Bit for bit: one call of the C library, and the operator of one tensor."""
    found, first = trained(name, bits, dtype=dtype, device=device)
    monkeypatch.setattr(_many, "fits", lambda *_: False)
    alone, second = trained(name, bits, dtype=dtype, device=device)
    for a, b in zip(found, alone, strict=True):
        assert torch.equal(a, b)
        for key, value in first.state[a].items():
            assert key == "step" or torch.equal(value, second.state[b][key]), key


@pytest.mark.parametrize("name", ["Adam8bit", "Lion8bit", "SGD32bit", "AdEMAMix32bit"])
def test_every_instruction_set(name):
    library, results = _library.load(), {}
    for isa in (b"scalar", b"avx2", b"avx512", b"neon"):
        try:
            library.call("kw_set_option", b"cpu_isa", isa)
        except errors.KernelwrightError:
            continue
        family = name.removesuffix("8bit").removesuffix("32bit")
        results[isa] = trained(family, name.removeprefix(family), steps=1)[0]
    library.call("kw_set_option", b"cpu_isa", b"")
    first, *others = results.values()
    for other in others:
        for a, b in zip(first, other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def test_one_call_for_all(monkeypatch):
    library, calls = _library.load(), []
    real = library.call
    monkeypatch.setattr(library, "call", lambda name, *args: (calls.append(name), real(name, *args)))
    params = parameters(shapes=[(64, 65)] * 100)
    gradients(params, 0)
    optimizer = optim.AdamW8bit(params)
    optimizer.step()
    assert [name for name in calls if "optimizer" in name] == ["kw_optimizer_update_8bit_blockwise_many"]


@each_family
@pytest.mark.parametrize("bits", ["8bit", "32bit"])
def test_state_dict(name, bits):
    """Under bitsandbytes' key and names; what goes on from it goes on alike."""
    params, optimizer = trained(name, bits, dtype=torch.bfloat16)
    saved = copy.deepcopy(optimizer.state_dict())
    large = saved["state"][4]
    several = {"state1", "state2", "absmax1", "absmax2", "qmap1", "qmap2"}
    names = {n for n in several if bits == "8bit" or n.startswith("state")}
    if _optimizer.RULES[optimizer.rule] == 1:
        names = {n for n in names if n.endswith("1")}
    assert set(large) == {"step", WRAPPED}
    assert set(large[WRAPPED]) == names
    again = [torch.nn.Parameter(p.detach().clone()) for p in params]
    other = getattr(optim, f"{name}{bits}")(again, **FAMILIES[name])
    other.load_state_dict(saved)
    for held, which in ((params, optimizer), (again, other)):
        gradients(held, 99)
        which.step()
    for a, b in zip(params, again, strict=True):
        assert torch.equal(a, b)
        assert other.state[b]["state1"].dtype is optimizer.state[a]["state1"].dtype


def test_settings_of_single_parameters():
    manager = optim.GlobalOptimManager.get_instance()
    manager.initialize()
    params = parameters(shapes=[(64, 64), (64, 64), (64, 64)])
    manager.register_parameters(params)
    manager.override_config(params[1], "optim_bits", 32)
    manager.override_config([params[2]], key_value_dict={"lr": 0.0, "weight_decay": 0.0})
    optimizer = optim.AdamW(params, lr=0.1, optim_bits=8)
    gradients(params, 1)
    before = [p.detach().clone() for p in params]
    optimizer.step()
    manager.initialize()
    assert [optimizer.state[p]["state1"].dtype for p in params] == [torch.uint8, torch.float32, torch.uint8]
    assert [torch.equal(p, b) for p, b in zip(params, before, strict=True)] == [False, False, True]


def test_a_learning_rate_that_is_a_tensor():
    params, same = parameters(), parameters()
    rate = torch.tensor(0.25)
    one, other = optim.Adam8bit(params, lr=rate), optim.Adam8bit(same, lr=0.25)
    for number in range(2):
        for held, which in ((params, one), (same, other)):
            gradients(held, number)
            which.step()
        rate.mul_(0.5)
        other.param_groups[0]["lr"] *= 0.5
    assert all(torch.equal(a, b) for a, b in zip(params, same, strict=True))


def test_parameters_with_gaps_between_elements():
    whole = torch.randn(64, 130)
    p = torch.nn.Parameter(whole[:, ::2])
    alike = torch.nn.Parameter(p.detach().clone().contiguous())
    for held in (p, alike):
        gradients([held], 5)
        optim.AdamW8bit([held], lr=0.1).step()
    assert torch.equal(p, alike)
    assert not p.is_contiguous()


def test_refusals():
    params = parameters(shapes=[(3,)])
    with pytest.raises(errors.InvalidArgument, match="Adam8bit does not support amsgrad=True"):
        optim.Adam8bit(params, amsgrad=True)
    with pytest.raises(errors.Unsupported, match="SGD8bit: momentum is 0"):
        optim.SGD8bit(params, 0.1)
    with pytest.raises(errors.InvalidArgument, match="beta parameter at index 1"):
        optim.Lion(params, betas=(0.9, 1.0))
    p = torch.zeros(4)
    with pytest.raises(errors.InvalidArgument, match="param overlaps grad"):
        kernelwright.optimizer_update_32bit(p, p, torch.zeros(4), None, "lion", step=1, lr=0.1)
    with pytest.raises(errors.InvalidArgument, match="rule is 'sgd', but must be 'momentum' or"):
        kernelwright.optimizer_update_32bit(p, torch.zeros(4), torch.zeros(4), None, "sgd", step=1, lr=0.1)


def test_settings_that_no_step_looks_at_are_refused():
    manager = optim.GlobalOptimManager.get_instance()
    layer = torch.nn.Linear(2, 2)
    with pytest.raises(errors.Unsupported, match="max_unorm, skip_zeros cannot be set for single parameters"):
        manager.override_config(layer.weight, key_value_dict={"skip_zeros": True, "max_unorm": 1.0, "lr": 1.0})
    with pytest.raises(errors.Unsupported, match="percentile_clipping"):
        manager.register_module_override(layer, "weight", {"percentile_clipping": 5})
    assert id(layer.weight) not in manager.pid2config
