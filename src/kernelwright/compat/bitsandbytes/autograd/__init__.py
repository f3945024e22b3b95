# SPDX-License-Identifier: MIT
"""bitsandbytes.autograd."""

from __future__ import annotations

from kernelwright.compat.bitsandbytes.autograd import _functions

__all__ = ["_functions"]
