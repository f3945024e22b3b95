# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.adam."""

from __future__ import annotations

from kernelwright.optim.adam import Adam, Adam8bit, Adam32bit
from kernelwright.optim.paged import PagedAdam, PagedAdam8bit, PagedAdam32bit

__all__ = ["Adam", "Adam8bit", "Adam32bit", "PagedAdam", "PagedAdam8bit", "PagedAdam32bit"]
