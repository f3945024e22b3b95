# SPDX-License-Identifier: MIT
"""The toolchain's version, which wheels name as what made them; that of kernelwright, and of both pyproject.toml."""

VERSION = "0.1.0"
