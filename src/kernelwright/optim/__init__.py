# SPDX-License-Identifier: MIT
"""Optimizers with states of 8 or 32 bits: bitsandbytes' classes and state dicts, one launch for many tensors.

Each file here that does not begin with an underscore exports its `__all__`.
"""

from __future__ import annotations

import importlib
import pkgutil

from kernelwright import ops

ops.register()

__all__: list[str] = []
for _name in sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")):
    _module = importlib.import_module(f"{__name__}.{_name}")
    __all__ += _module.__all__
    globals().update({name: getattr(_module, name) for name in _module.__all__})
