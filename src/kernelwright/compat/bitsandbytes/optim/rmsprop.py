# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.rmsprop."""

from __future__ import annotations

from kernelwright import optim
from kernelwright.compat.bitsandbytes.optim._named import named

__all__ = ["RMSprop", "RMSprop8bit", "RMSprop32bit"]

RMSprop, RMSprop8bit, RMSprop32bit = named(__name__, optim.RMSprop, optim.RMSprop8bit, optim.RMSprop32bit)
