# SPDX-License-Identifier: MIT
"""Products of 8-bit integers, and what makes them of floating-point rows."""
