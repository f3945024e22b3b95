# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.lamb."""

from __future__ import annotations

from kernelwright import optim
from kernelwright.compat.bitsandbytes.optim._named import named

__all__ = ["LAMB", "LAMB8bit", "LAMB32bit"]

LAMB, LAMB8bit, LAMB32bit = named(__name__, optim.LAMB, optim.LAMB8bit, optim.LAMB32bit)
