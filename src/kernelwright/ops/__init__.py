# SPDX-License-Identifier: MIT
"""The operators. Each file here that does not begin with an underscore holds one, as `OP`, an Op record.

The records need no torch: `names()`, `record(name)`. `register()` imports torch and makes every record an
operator of `torch.ops.kernelwright`; `kernelwright.<op>` does so by itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kernelwright.ops._record import Op

__all__ = ["function", "names", "record", "register"]


@cache
def names() -> tuple[str, ...]:
    """The operators there are: the file names, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


def record(name: str) -> Op:
    """The record of an operator; needs no torch."""
    found: Op = importlib.import_module(f"{__name__}.{name}").OP
    return found


def register() -> None:
    """Registers every operator with torch; the first call does it, later ones return at once."""
    from kernelwright.ops import _register

    _register.register(record(name) for name in names())


def function(name: str) -> Callable[..., Any]:
    """The public Python function of an operator, ready to be called."""
    from kernelwright.ops import _register

    register()
    _register.require(name)
    return record(name).function
