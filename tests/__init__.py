# SPDX-License-Identifier: MIT
"""Tests, and programs that they start: `python -m tests.…` from the root finds the toolchain that lies beside them."""

import sys
from pathlib import Path

_TOOLCHAIN = str(Path(__file__).resolve().parents[1] / "toolchain")
if _TOOLCHAIN not in sys.path:
    sys.path.append(_TOOLCHAIN)
