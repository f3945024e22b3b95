# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.sgd."""

from __future__ import annotations

from kernelwright.compat.bitsandbytes.optim._named import named
from kernelwright.optim import sgd

__all__ = ["SGD", "SGD8bit", "SGD32bit"]

SGD, SGD8bit, SGD32bit = named(__name__, sgd.SGD, sgd.SGD8bit, sgd.SGD32bit)
