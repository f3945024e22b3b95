# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.adagrad."""

from __future__ import annotations

from kernelwright import optim
from kernelwright.compat.bitsandbytes.optim._named import named

__all__ = ["Adagrad", "Adagrad8bit", "Adagrad32bit"]

Adagrad, Adagrad8bit, Adagrad32bit = named(__name__, optim.Adagrad, optim.Adagrad8bit, optim.Adagrad32bit)
