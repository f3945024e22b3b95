# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.lion."""

from __future__ import annotations

from kernelwright.compat.bitsandbytes.optim._named import named
from kernelwright.optim import lion, paged

__all__ = ["Lion", "Lion8bit", "Lion32bit", "PagedLion", "PagedLion8bit", "PagedLion32bit"]

Lion, Lion8bit, Lion32bit = named(__name__, lion.Lion, lion.Lion8bit, lion.Lion32bit)
PagedLion, PagedLion8bit, PagedLion32bit = named(__name__, paged.PagedLion, paged.PagedLion8bit, paged.PagedLion32bit)
