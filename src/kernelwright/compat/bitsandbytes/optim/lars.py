# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.lars."""

from __future__ import annotations

from kernelwright.optim.lars import LARS, LARS8bit, LARS32bit, PytorchLARS

__all__ = ["LARS", "LARS8bit", "LARS32bit", "PytorchLARS"]
