# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.rmsprop."""

from __future__ import annotations

from kernelwright.compat.bitsandbytes.optim._named import named
from kernelwright.optim import rmsprop

__all__ = ["RMSprop", "RMSprop8bit", "RMSprop32bit"]

RMSprop, RMSprop8bit, RMSprop32bit = named(__name__, rmsprop.RMSprop, rmsprop.RMSprop8bit, rmsprop.RMSprop32bit)
