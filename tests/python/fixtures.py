# SPDX-License-Identifier: MIT
"""Fixtures of the Python package's tests, in whatever folder; `support` and `tensors` beside this file hold what else they share."""

from __future__ import annotations

import secrets
import sys

import pytest

from kernelwright import _environment


@pytest.fixture(scope="session", autouse=True)
def _plain_environment() -> None:
    """The tests here say what the package does with no variable set; those that set one start a process for it."""
    stray = [name for name, value, _ in _environment.describe() if value and name != _environment.CACHE]
    assert not stray, f"unset {', '.join(stray)} to run these tests"


@pytest.fixture
def seed() -> int:
    """New numbers in every run; pytest shows the seed of a test that fails."""
    number = secrets.randbits(32)
    print(f"seed {number}")
    return number


@pytest.fixture(autouse=True)
def _numbers() -> None:
    """So have torch's own, whatever ran before; a test that needs its generator in a child process takes `seed`."""
    if torch := sys.modules.get("torch"):
        number = secrets.randbits(32)
        print(f"torch.manual_seed({number})")
        torch.manual_seed(number)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and (torch := sys.modules.get("torch")):
        torch.zeros(1, device="cuda")  # a context: a test whose first call is a product of torch's would be warned
    return request.param


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether every combination is wanted (--long), where else each pair of two properties is taken."""
    return request.config.getoption("--long")
