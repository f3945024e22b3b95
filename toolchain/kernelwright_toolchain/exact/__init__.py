# SPDX-License-Identifier: MIT
"""The same bytes everywhere: builds under other circumstances; wheels compared member by member."""
