# SPDX-License-Identifier: MIT
"""CUDA kernels for PyTorch in one small wheel.

Nothing is loaded at import: `kernelwright.<op>` imports torch, opens the library and registers the
operators when it is first asked for. `python -m kernelwright` says what this installation can do here.
"""

from __future__ import annotations

from kernelwright._fork import section as _section

TYPE_CHECKING = False  # typing.TYPE_CHECKING without importing typing
if TYPE_CHECKING:
    from typing import Any

_SUBMODULES = ("errors", "functional", "nn", "ops", "optim")
_FUNCTIONS = ("scaled_dot_product_attention",)  # of kernelwright.functional


def __getattr__(name: str) -> Any:
    with _section:
        value = _resolve(name)
    globals()[name] = value  # the next access does not come here
    return value


def _resolve(name: str) -> Any:
    import importlib

    if name == "__version__":
        from kernelwright import _files

        return _files.version()
    if name in _SUBMODULES:
        return importlib.import_module(f"kernelwright.{name}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module("kernelwright.functional"), name)
    if not name.startswith("_"):
        ops = importlib.import_module("kernelwright.ops")
        if name in ops.names():
            return ops.function(name)
    raise AttributeError(f"module 'kernelwright' has no attribute {name!r}; dir(kernelwright) lists the operators")


def __dir__() -> list[str]:
    from kernelwright import ops

    return sorted({"__version__", *_SUBMODULES, *_FUNCTIONS, *ops.names(), *globals()})
