# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.lamb."""

from __future__ import annotations

from kernelwright.compat.bitsandbytes.optim._named import named
from kernelwright.optim import lamb

__all__ = ["LAMB", "LAMB8bit", "LAMB32bit"]

LAMB, LAMB8bit, LAMB32bit = named(__name__, lamb.LAMB, lamb.LAMB8bit, lamb.LAMB32bit)
