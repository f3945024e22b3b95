# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.adamw."""

from __future__ import annotations

from kernelwright.compat.bitsandbytes.optim._named import named
from kernelwright.optim import adam, paged

__all__ = ["AdamW", "AdamW8bit", "AdamW32bit", "PagedAdamW", "PagedAdamW8bit", "PagedAdamW32bit"]

AdamW, AdamW8bit, AdamW32bit = named(__name__, adam.AdamW, adam.AdamW8bit, adam.AdamW32bit)
PagedAdamW, PagedAdamW8bit, PagedAdamW32bit = named(
    __name__, paged.PagedAdamW, paged.PagedAdamW8bit, paged.PagedAdamW32bit
)
