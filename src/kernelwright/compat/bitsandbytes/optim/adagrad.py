# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.adagrad."""

from __future__ import annotations

from kernelwright.optim.adagrad import Adagrad, Adagrad8bit, Adagrad32bit

__all__ = ["Adagrad", "Adagrad8bit", "Adagrad32bit"]
