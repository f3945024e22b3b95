# SPDX-License-Identifier: MIT
"""Attention."""
