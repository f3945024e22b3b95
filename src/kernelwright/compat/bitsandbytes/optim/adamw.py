# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.adamw."""

from __future__ import annotations

from kernelwright.optim.adam import AdamW, AdamW8bit, AdamW32bit
from kernelwright.optim.paged import PagedAdamW, PagedAdamW8bit, PagedAdamW32bit

__all__ = ["AdamW", "AdamW8bit", "AdamW32bit", "PagedAdamW", "PagedAdamW8bit", "PagedAdamW32bit"]
