# SPDX-License-Identifier: MIT
"""The name that `_calls` had."""

from kernelwright.ops._calls import calls

__all__ = ["calls"]
