# SPDX-License-Identifier: MIT
"""Peers of the family of this name."""
