# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.sgd."""

from __future__ import annotations

from kernelwright import optim
from kernelwright.compat.bitsandbytes.optim._named import named

__all__ = ["SGD", "SGD8bit", "SGD32bit"]

SGD, SGD8bit, SGD32bit = named(__name__, optim.SGD, optim.SGD8bit, optim.SGD32bit)
