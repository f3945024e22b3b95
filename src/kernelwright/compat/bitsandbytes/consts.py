# SPDX-License-Identifier: MIT
"""bitsandbytes.consts."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DYNAMIC_LIBRARY_SUFFIX", "PACKAGE_DIR"]

DYNAMIC_LIBRARY_SUFFIX = ".so"
PACKAGE_DIR = Path(__file__).parent
