# SPDX-License-Identifier: MIT
"""What becomes of a built tree: its version label, its platform tag, and the exact bytes of the wheel."""
