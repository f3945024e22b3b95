# SPDX-License-Identifier: MIT
"""What a user of transformers gets: `python -m kernelwright bench transformers`."""

from __future__ import annotations
