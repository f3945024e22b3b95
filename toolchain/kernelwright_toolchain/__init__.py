# SPDX-License-Identifier: MIT
"""What builds kernelwright: targets, providers, compilers, wheels. Not part of the wheel."""
