# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.adagrad."""

from __future__ import annotations

from kernelwright.compat.bitsandbytes.optim._named import named
from kernelwright.optim import adagrad

__all__ = ["Adagrad", "Adagrad8bit", "Adagrad32bit"]

Adagrad, Adagrad8bit, Adagrad32bit = named(__name__, adagrad.Adagrad, adagrad.Adagrad8bit, adagrad.Adagrad32bit)
