# SPDX-License-Identifier: MIT
"""Normalizations of rows: RMSNorm and LayerNorm, with a residual, forward and backward."""
