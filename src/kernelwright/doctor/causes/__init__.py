# SPDX-License-Identifier: MIT
"""The causes, one file an area. Each file here holds `CAUSES`; nothing else lists them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.doctor._cause import Cause


@cache
def all_causes() -> dict[str, Cause]:
    """Every cause by its code, in the order of the codes."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    found: list[Cause] = sorted((cause for module in modules for cause in module.CAUSES), key=lambda c: c.code)
    return {cause.code: cause for cause in found}
