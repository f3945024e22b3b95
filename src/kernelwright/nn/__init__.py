# SPDX-License-Identifier: MIT
"""Modules that are parameters plus operator calls: drop-in for torch's. Each file here exports its `__all__`."""

from __future__ import annotations

import importlib
import pkgutil

from kernelwright import ops

ops.register()

__all__: list[str] = []
for _name in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    _module = importlib.import_module(f"{__name__}.{_name}")
    __all__ += _module.__all__
    globals().update({name: getattr(_module, name) for name in _module.__all__})
