# SPDX-License-Identifier: MIT
"""`python -m kernelwright bench bitnet`: a stack of BitNet's feed-forward blocks, ternary and in 16 bits."""
