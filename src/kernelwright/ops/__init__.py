# SPDX-License-Identifier: MIT
"""The operators. Each folder is a family; a file there without an underscore holds one operator, `OP`, an Op record.
A folder needs no `__init__.py`.

The records need no torch: `names()`, `record(name)`. `register()` imports torch and makes every record an
operator of `torch.ops.kernelwright`; `kernelwright.<op>` does so by itself.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from kernelwright._fork import section

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from kernelwright.ops._record import Op

__all__ = ["families", "function", "names", "record", "register"]


@cache
def families() -> Mapping[str, str]:
    """Each operator's family, in the operators' order: the file names, sorted, and their folders."""
    folders = [entry for entry in os.scandir(__path__[0]) if entry.is_dir() and not entry.name.startswith("_")]
    found = {
        module.name: folder.name
        for folder in folders
        for module in pkgutil.iter_modules([folder.path])
        if not module.name.startswith("_")
    }
    return dict(sorted(found.items()))


def names() -> tuple[str, ...]:
    """The operators there are, sorted."""
    return tuple(families())


def record(name: str) -> Op:
    """The record of an operator; needs no torch."""
    found: Op = importlib.import_module(f"{__name__}.{families()[name]}.{name}").OP
    return found


def register() -> None:
    """Registers every operator with torch; the first call does it, later ones return at once."""
    with section:
        from kernelwright.ops import _register

        _register.register(record(name) for name in names())


def function(name: str) -> Callable[..., Any]:
    """The public Python function of an operator, ready to be called."""
    from kernelwright.ops import _register

    register()
    _register.require(name)
    return record(name).function
