# SPDX-License-Identifier: MIT
"""Compiles device sources to images."""
