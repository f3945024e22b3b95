# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.adam."""

from __future__ import annotations

from kernelwright.compat.bitsandbytes.optim._named import named
from kernelwright.optim import adam, paged

__all__ = ["Adam", "Adam8bit", "Adam32bit", "PagedAdam", "PagedAdam8bit", "PagedAdam32bit"]

Adam, Adam8bit, Adam32bit = named(__name__, adam.Adam, adam.Adam8bit, adam.Adam32bit)
PagedAdam, PagedAdam8bit, PagedAdam32bit = named(__name__, paged.PagedAdam, paged.PagedAdam8bit, paged.PagedAdam32bit)
