# SPDX-License-Identifier: MIT
"""A pytest plugin: kernelwright's kernels under an installed bitsandbytes."""

from tests.integrations.bitsandbytes_suite import reached
from tests.integrations.bitsandbytes_suite.reached import pytest_runtest_logfinish

__all__ = ["pytest_runtest_logfinish"]

reached.count_operators()

from kernelwright.integrations import _bitsandbytes_order, bitsandbytes

# Layers keep their codes in order, or a CPU with the instructions for it would take bitsandbytes' own kernels.
_bitsandbytes_order.reordered_is_faster = lambda _: False
bitsandbytes.enable()
