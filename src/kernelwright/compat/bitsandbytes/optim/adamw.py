# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.adamw."""

from __future__ import annotations

from kernelwright import optim
from kernelwright.compat.bitsandbytes.optim._named import named

__all__ = ["AdamW", "AdamW8bit", "AdamW32bit", "PagedAdamW", "PagedAdamW8bit", "PagedAdamW32bit"]

AdamW, AdamW8bit, AdamW32bit = named(__name__, optim.AdamW, optim.AdamW8bit, optim.AdamW32bit)
PagedAdamW, PagedAdamW8bit, PagedAdamW32bit = named(
    __name__, optim.PagedAdamW, optim.PagedAdamW8bit, optim.PagedAdamW32bit
)
