# SPDX-License-Identifier: MIT
"""The maps that 8-bit codes can have."""

from __future__ import annotations

from kernelwright.ops.optim._maps import create_dynamic_map, create_fp8_map, create_linear_map, create_normal_map

__all__ = ["create_dynamic_map", "create_fp8_map", "create_linear_map", "create_normal_map"]
