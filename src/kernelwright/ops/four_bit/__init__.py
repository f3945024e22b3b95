# SPDX-License-Identifier: MIT
"""Weights of 4 bits with a scale for each block, as bitsandbytes has them: quantize, dequantize, products."""
