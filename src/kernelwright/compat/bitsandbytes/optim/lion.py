# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.lion."""

from __future__ import annotations

from kernelwright.optim.lion import Lion, Lion8bit, Lion32bit
from kernelwright.optim.paged import PagedLion, PagedLion8bit, PagedLion32bit

__all__ = ["Lion", "Lion8bit", "Lion32bit", "PagedLion", "PagedLion8bit", "PagedLion32bit"]
