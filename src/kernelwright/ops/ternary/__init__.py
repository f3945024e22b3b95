# SPDX-License-Identifier: MIT
"""Ternary weights: BitNet."""
