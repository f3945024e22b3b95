# SPDX-License-Identifier: MIT
"""Linear layers that end in an activation."""
