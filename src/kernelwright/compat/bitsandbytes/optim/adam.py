# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.adam."""

from __future__ import annotations

from kernelwright import optim
from kernelwright.compat.bitsandbytes.optim._named import named

__all__ = ["Adam", "Adam8bit", "Adam32bit", "PagedAdam", "PagedAdam8bit", "PagedAdam32bit"]

Adam, Adam8bit, Adam32bit = named(__name__, optim.Adam, optim.Adam8bit, optim.Adam32bit)
PagedAdam, PagedAdam8bit, PagedAdam32bit = named(__name__, optim.PagedAdam, optim.PagedAdam8bit, optim.PagedAdam32bit)
