# SPDX-License-Identifier: MIT
"""tests/layout/torch-names.txt is true of the torch that is here: of the oldest where that is it, else of a later one,
which may have dropped what the oldest had."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

from tests.layout.torch_names import NAMES, members, rows
from tests.tree import ROOT

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def recorded() -> dict[str, str | None]:
    import torch

    text = (ROOT / NAMES).read_text(encoding="utf-8")
    if not torch.backends.cuda.is_built():
        text = re.sub(r"^.* in builds for GPUs$", "", text, flags=re.MULTILINE)
    return rows(text)


def newer(since: str | None) -> bool:
    """Whether this torch is older than that release."""
    import torch

    release = torch.__version__.split("+")[0].split(".")[:2]
    return since is not None and [int(part) for part in release] < [int(part) for part in since.split(".")]


def there(name: str) -> bool:
    """`torch.a.b`, where `a` may be a module that nothing has imported."""
    found: object = importlib.import_module("torch")
    path = "torch"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part) if hasattr(found, part) else importlib.import_module(path)
        except ImportError:
            return False
    return True


def test_this_torch_has_what_is_taken_from_torch(recorded):
    dotted = [name for name in recorded if not name.startswith(".")]
    assert len(dotted) > 50
    assert [name for name in dotted if there(name) == newer(recorded[name])] == []


def test_values_of_this_torch_have_what_is_taken_from_them(recorded):
    import torch.autograd.forward_ad
    import torch.distributed._tensor
    import torch.distributed.tensor.parallel
    import torch.nn.utils.parametrize  # noqa: F401 - the package imports them, or is given their objects

    modules = [module for name, module in list(sys.modules.items()) if module and name.partition(".")[0] == "torch"]
    known = set().union(*map(members, modules))
    taken = [name for name in recorded if name.startswith(".")]
    assert len(taken) > 40
    assert [name for name in taken if (name[1:] in known) == newer(recorded[name])] == []
