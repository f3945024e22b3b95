# SPDX-License-Identifier: MIT
"""Other libraries' names on kernelwright's operators: one module a library."""

from __future__ import annotations
