# SPDX-License-Identifier: MIT
"""kernelwright underneath other libraries: one module a library, imported only where it is asked for."""

from __future__ import annotations
