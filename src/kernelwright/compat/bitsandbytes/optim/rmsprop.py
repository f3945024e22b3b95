# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.rmsprop."""

from __future__ import annotations

from kernelwright.optim.rmsprop import RMSprop, RMSprop8bit, RMSprop32bit

__all__ = ["RMSprop", "RMSprop8bit", "RMSprop32bit"]
