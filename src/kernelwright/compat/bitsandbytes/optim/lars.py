# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.lars."""

from __future__ import annotations

from kernelwright.compat.bitsandbytes.optim._named import named
from kernelwright.optim import lars

__all__ = ["LARS", "LARS8bit", "LARS32bit", "PytorchLARS"]

LARS, LARS8bit, LARS32bit, PytorchLARS = named(__name__, lars.LARS, lars.LARS8bit, lars.LARS32bit, lars.PytorchLARS)
