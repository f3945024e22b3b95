# SPDX-License-Identifier: MIT
"""kernelwright's optimizers under this package's name: programs look for "bitsandbytes" in what a class says it is.

transformers' Trainer does so, and keeps the states of embeddings in 32 bits only for such.
"""

from __future__ import annotations

from typing import Any

__all__ = ["named"]


def named(module: str, *classes: type[Any]) -> tuple[type[Any], ...]:
    """A class of the same name for each of these, that is one of it and lies in this module."""
    return tuple(type(c.__name__, (c,), {"__module__": module, "__doc__": c.__doc__}) for c in classes)
