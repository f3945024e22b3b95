# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.lamb."""

from __future__ import annotations

from kernelwright.optim.lamb import LAMB, LAMB8bit, LAMB32bit

__all__ = ["LAMB", "LAMB8bit", "LAMB32bit"]
