# SPDX-License-Identifier: MIT
"""Gated activations of feed-forward layers."""
