# SPDX-License-Identifier: MIT
"""bitsandbytes.optim: the classes of kernelwright.optim, under this package's name."""

from __future__ import annotations

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

_FILES = (adagrad, adam, adamw, ademamix, lamb, lars, lion, rmsprop, sgd)
_NAMES = ("GlobalOptimManager", *(name for file in _FILES for name in file.__all__))
globals().update({name: getattr(file, name) for file in _FILES for name in file.__all__})
GlobalOptimManager = optimizer.GlobalOptimManager

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
