# SPDX-License-Identifier: MIT
"""Counts the calls that reach kernelwright while another project's tests run, and appends the sum to $REACHED at the end."""

from __future__ import annotations

import functools
import os
from pathlib import Path

calls = {"number": 0}


def counted(function):
    @functools.wraps(function)  # with its signature, which is compared with bitsandbytes' schemas
    def call(*arguments, **named):
        calls["number"] += 1
        return function(*arguments, **named)

    return call


def count_operators() -> None:
    """Those that torch.ops.bitsandbytes has or gets from kernelwright."""
    from kernelwright.integrations import _bitsandbytes_8bit, _bitsandbytes_int8, _bitsandbytes_kernels

    for module in (_bitsandbytes_8bit, _bitsandbytes_int8, _bitsandbytes_kernels):
        module.KERNELS.update({name: counted(kernel) for name, kernel in module.KERNELS.items()})


def pytest_unconfigure() -> None:
    with Path(os.environ["REACHED"]).open("a", encoding="utf-8") as file:
        file.write(f"{calls['number']}\n")
