# SPDX-License-Identifier: MIT
"""flash_attn.layers: rotary embeddings."""

from __future__ import annotations

from kernelwright.compat._covered import refuse_others
from kernelwright.compat.flash_attn.layers import rotary

__all__ = ["rotary"]

__getattr__ = refuse_others(__name__, __all__, "For the rest install flash-attn itself")
