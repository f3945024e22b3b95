# SPDX-License-Identifier: MIT
"""bitsandbytes.optim: the classes of kernelwright.optim."""

from __future__ import annotations

from kernelwright import optim as _optim
from kernelwright.compat._covered import refuse_others
from kernelwright.compat.bitsandbytes.optim import (
    adagrad,
    adam,
    adamw,
    ademamix,
    lamb,
    lars,
    lion,
    optimizer,
    rmsprop,
    sgd,
)

_OWN = ("create_dynamic_map", "create_fp8_map", "create_linear_map", "create_normal_map")  # elsewhere in bitsandbytes
_NAMES = tuple(name for name in _optim.__all__ if name not in _OWN)
globals().update({name: getattr(_optim, name) for name in _NAMES})

__all__ = [  # noqa: PLE0604 - the classes' names are strings too
    "adagrad",
    "adam",
    "adamw",
    "ademamix",
    "lamb",
    "lars",
    "lion",
    "optimizer",
    "rmsprop",
    "sgd",
    *_NAMES,
]

__getattr__ = refuse_others(__name__, __all__, "What is not there, and why: docs/bitsandbytes.md")
