# SPDX-License-Identifier: MIT
"""A model whose experts are tensors of three dimensions is told of, because quantizers leave them as they are."""

from __future__ import annotations

import logging

import pytest

torch = pytest.importorskip("torch")

from kernelwright.integrations import _wide

pytestmark = pytest.mark.torch


class Experts(torch.nn.Module):
    def __init__(self, count):
        super().__init__()
        self.up = torch.nn.Parameter(torch.zeros(count, 8, 16))
        self.down = torch.nn.Parameter(torch.zeros(count, 16, 8))


def model_of(*layers):
    return torch.nn.Sequential(*layers, torch.nn.Linear(16, 16, bias=False))


def test_experts_are_told_of_once_for_all_layers(caplog):
    model = model_of(Experts(4), Experts(4), torch.nn.Conv2d(4, 4, 3))
    assert _wide.left_wide(model) == {"*": 2 * 2 * 4 * 8 * 16}
    with caplog.at_level(logging.WARNING):
        _wide.tell(model)
    assert len(caplog.messages) == 1
    assert "Sequential: 84 % of its parameters" in caplog.messages[0]
    assert "replace_parameter_4bit" in caplog.messages[0]


def test_others_are_not_told_of(caplog):
    with caplog.at_level(logging.WARNING):
        _wide.tell(model_of(torch.nn.Conv2d(64, 64, 3)))
    assert not caplog.messages
