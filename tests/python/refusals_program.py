# SPDX-License-Identifier: MIT
"""Refuses calls 10,000 times, both ways, and sees that each has its class and that no memory is kept: a program of its
own, for test_calls.py and, on another kind of machine, for tests/toolchain/test_other_machine.py."""

import ctypes
import gc
import resource
from pathlib import Path

import torch

import kernelwright
from kernelwright import errors

torch.set_num_threads(1)
libc = ctypes.CDLL(None)
if hasattr(libc, "mallinfo2"):
    libc.mallinfo2.restype = type(
        "Info", (ctypes.Structure,), {"_fields_": [(str(i), ctypes.c_size_t) for i in range(10)]}
    )
x, few = torch.randn(64, 512), torch.ones(3)
packed, absmax = kernelwright.quantize_4bit(torch.ones(64, 64))


def refused(call, kind):
    try:
        call()
    except kind as error:
        return str(error)
    raise SystemExit("not refused")


def once():
    with torch.inference_mode():
        a = refused(lambda: kernelwright.rms_norm(x, few), errors.InvalidArgument)
        b = refused(lambda: torch.ops.kernelwright.rms_norm(x, few), RuntimeError)
        assert a == b, (a, b)


def in_use():
    gc.collect()  # what Python has not looked at yet is no leak
    if hasattr(libc, "mallinfo2"):  # nor is what was freed and lies between what is in use
        info = libc.mallinfo2()
        return getattr(info, "4") + getattr(info, "7")  # mapped blocks, and those of every arena
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def more():
    # One with a string and a list, and one that Python serves.
    with torch.inference_mode():
        args = packed, absmax, [8, 8], 64, "nf5", torch.float32
        refused(lambda: torch.ops.kernelwright.dequantize_4bit(*args), RuntimeError)
        kernelwright.rms_norm(x.double())


for _ in range(500):
    once()
    more()
before = in_use()
for _ in range(5000):  # of two refusals each
    once()
for _ in range(2000):
    more()
grown = in_use() - before
assert grown < 48 * 1000, f"{grown} bytes more"  # a string or a list that was kept in each would be 96,000
