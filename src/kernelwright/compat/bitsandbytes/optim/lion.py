# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.lion."""

from __future__ import annotations

from kernelwright import optim
from kernelwright.compat.bitsandbytes.optim._named import named

__all__ = ["Lion", "Lion8bit", "Lion32bit", "PagedLion", "PagedLion8bit", "PagedLion32bit"]

Lion, Lion8bit, Lion32bit = named(__name__, optim.Lion, optim.Lion8bit, optim.Lion32bit)
PagedLion, PagedLion8bit, PagedLion32bit = named(__name__, optim.PagedLion, optim.PagedLion8bit, optim.PagedLion32bit)
