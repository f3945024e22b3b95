# SPDX-License-Identifier: MIT
"""Optimizers, and the 8-bit codes of their states."""
