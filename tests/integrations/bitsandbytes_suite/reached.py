# SPDX-License-Identifier: MIT
"""Counts the calls that reach kernelwright while another project's tests run, and appends them to $REACHED after each test.

After each one and when the process ends by itself, so that of a process that is ended from outside one test's are lost at
most: a GPU is lent for minutes, and what a cut-off process had counted would otherwise be missing from the sum.
"""

from __future__ import annotations

import atexit
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


def write() -> None:
    """What was counted since it was called last."""
    number, calls["number"] = calls["number"], 0
    if number:
        with Path(os.environ["REACHED"]).open("a", encoding="utf-8") as file:
            file.write(f"{number}\n")


def pytest_runtest_logfinish() -> None:
    write()


atexit.register(write)  # calls of fixtures that live as long as the process
