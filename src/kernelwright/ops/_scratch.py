# SPDX-License-Identifier: MIT
"""Scratch memory for calls of the C library."""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_MOST_KEPT = 1 << 20


class _Last(threading.local):
    """What a thread's last call on the CPU used: that call is over before the next begins, and to ask torch for memory
    takes longer than a small call's other preparations."""

    held: tuple[Tensor | None, int, int] = None, 0, 0  # memory, its size and its address


_last = _Last()


def scratch_bytes(library: Library, function: str) -> Callable[..., int]:
    """A function of a device and sizes that asks `function` how many bytes such a call needs.

    Of the same always the same; asking costs more than a microsecond. A model has a few dozen.
    """

    @lru_cache(maxsize=1024)
    def ask(device: int, *sizes: int) -> int:
        found = ctypes.c_int64()
        library.call(function, device, *sizes, ctypes.addressof(found))
        return found.value

    return ask


def scratch(like: Tensor, device: int, size: int) -> tuple[Tensor | None, int]:
    """So many bytes where `like` is, to be kept until the call is made, and their address. `device` is the C library's
    number of the device that runs the call; the CPU's is negative."""
    if not size:
        return None, 0
    here = device < 0 and size <= _MOST_KEPT
    if here:
        memory, most, address = _last.held
        if size <= most:
            return memory, address
    import torch

    where = "cpu" if device < 0 else like.device  # `like` may be on meta, which is refused later
    memory = torch.empty(size, dtype=torch.uint8, device=where)
    address = memory.data_ptr()
    if here:
        _last.held = memory, size, address
    return memory, address
