# SPDX-License-Identifier: MIT
"""kernelwright.optim beside bitsandbytes' optimizers on the CPU: maps to the bit, steps, state dicts both ways."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
bnb = pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")

from kernelwright import optim

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


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("create_dynamic_map", ()),
        ("create_dynamic_map", (False,)),
        ("create_dynamic_map", (True, 5, 8)),
        ("create_dynamic_map", (True, 3, 4)),
        ("create_linear_map", ()),
        ("create_linear_map", (False,)),
        ("create_linear_map", (True, 5)),
        ("create_linear_map", (True, 8, False)),
        ("create_fp8_map", ()),
        ("create_fp8_map", (True, 2, 1, 4)),
        ("create_fp8_map", (False, 5, 3, 8)),
    ],
)
def test_maps(function, arguments):
    assert torch.equal(getattr(optim, function)(*arguments), getattr(bnb.functional, function)(*arguments))


def test_normal_map():
    """bitsandbytes takes scipy's quantiles, this package Python's: a unit in the last place apart at most."""
    pytest.importorskip("scipy", reason="scipy is not installed")
    for extra in (True, False):
        found, expected = (m.create_normal_map(use_extra_value=extra) for m in (optim, bnb.functional))
        torch.testing.assert_close(found, expected, rtol=2.0**-22, atol=0)


def run(package, name, steps, start=None):
    params = [torch.nn.Parameter(torch.randn(n, generator=torch.Generator().manual_seed(n))) for n in (50, 5000)]
    if package is bnb and name == "AdEMAMix32bit":  # whose states are of one mean's size, which its own step refuses
        name = "AdEMAMix"
    optimizer = getattr(package.optim, name)(params, **FAMILIES[name.removesuffix("8bit").removesuffix("32bit")])
    if start is not None:
        optimizer.load_state_dict(start)
    for number in range(steps):
        generator = torch.Generator().manual_seed(1000 + number)
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator)
        optimizer.step()
    return params, optimizer


class Ours:
    optim = optim


@pytest.mark.parametrize("name", FAMILIES)
def test_steps_of_32_bits(name):
    for a, b in zip(run(Ours, f"{name}32bit", 5)[0], run(bnb, f"{name}32bit", 5)[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_steps_of_8_bits(name):
    """Codes may differ where a state lies near the middle of two: then a few elements do, and those by little."""
    for a, b in zip(run(Ours, f"{name}8bit", 2)[0], run(bnb, f"{name}8bit", 2)[0], strict=True):
        near = torch.isclose(a, b, rtol=1e-4, atol=1e-5)
        assert near.float().mean() > 0.98


@pytest.mark.parametrize("name", [f"{family}{bits}" for family in FAMILIES for bits in ("8bit", "32bit")])
def test_state_dicts_go_both_ways(name):
    (_, ours), (_, theirs) = run(Ours, name, 1), run(bnb, name, 1)
    for number in (0, 1):
        a, b = ours.state_dict()["state"][number], theirs.state_dict()["state"][number]
        assert set(a) == set(b)
        for key, value in b.items():
            if isinstance(value, dict):
                assert set(a[key]) == set(value)
                assert {k: (v.shape, v.dtype) for k, v in a[key].items()} == {
                    k: (v.shape, v.dtype) for k, v in value.items()
                }
    for start in (ours.state_dict(), theirs.state_dict()):
        for a, b in zip(run(Ours, name, 1, start)[0], run(bnb, name, 1, start)[0], strict=True):
            near = torch.isclose(a, b, rtol=1e-4, atol=1e-5)
            assert near.float().mean() > 0.98
