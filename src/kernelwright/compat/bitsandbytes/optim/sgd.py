# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.sgd."""

from __future__ import annotations

from kernelwright.optim.sgd import SGD, SGD8bit, SGD32bit

__all__ = ["SGD", "SGD8bit", "SGD32bit"]
