# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.lars."""

from __future__ import annotations

from kernelwright import optim
from kernelwright.compat.bitsandbytes.optim._named import named

__all__ = ["LARS", "LARS8bit", "LARS32bit", "PytorchLARS"]

LARS, LARS8bit, LARS32bit, PytorchLARS = named(__name__, optim.LARS, optim.LARS8bit, optim.LARS32bit, optim.PytorchLARS)
