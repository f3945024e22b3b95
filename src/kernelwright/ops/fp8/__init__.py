# SPDX-License-Identifier: MIT
"""Products of 8-bit floats (e4m3), and what makes them of other floating-point rows."""
