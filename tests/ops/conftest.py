# SPDX-License-Identifier: MIT
"""The fixtures that all tests of the Python package share."""

from tests.python.fixtures import _numbers, _plain_environment, device, seed, whole

__all__ = ["_numbers", "_plain_environment", "device", "seed", "whole"]
