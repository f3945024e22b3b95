# SPDX-License-Identifier: MIT
"""What self-checks stand on, without torch or numpy: where they run, and Python numbers to raw memory and back."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any, Protocol

from kernelwright.errors import SelfCheckFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernelwright._library import Library

_FORMATS = {"float32": "f", "float16": "e", "float64": "d"}


class Place(Protocol):
    """Where the C functions run: the CPU, or a GPU, which gets its own copy of every buffer and gives it back."""

    device: int
    """As the C functions take it."""
    constants: Mapping[str, int]

    def call(self, function: str, *arguments: Any) -> None:
        """Calls one and waits for its end; memory is given as ctypes arrays. Raises if the function fails."""


class OnCpu:
    """Calls of the library that run where the buffers are."""

    def __init__(self, library: Library) -> None:
        self.device, self.constants, self.call = library.constants["KW_CPU"], library.constants, library.call


def workspace(size: int) -> Any:
    """A ctypes buffer of this size, aligned as the C functions want theirs."""
    room = ctypes.create_string_buffer(size + 16)
    return (ctypes.c_char * size).from_buffer(room, -ctypes.addressof(room) % 16)


def pack(dtype: str, values: Sequence[float]) -> Any:
    """A ctypes buffer of these values, rounded to nearest even."""
    if dtype == "bfloat16":
        bits = struct.unpack(f"={len(values)}I", struct.pack(f"={len(values)}f", *values))
        raw = struct.pack(f"={len(values)}H", *((b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits))
    else:
        raw = struct.pack(f"={len(values)}{_FORMATS[dtype]}", *values)
    return ctypes.create_string_buffer(raw, len(raw))


def unpack(dtype: str, buffer: Any) -> list[float]:
    """The values in a buffer that `pack` made."""
    raw = bytes(buffer)
    if dtype == "bfloat16":
        raw = struct.pack(f"={len(raw) // 2}I", *(b << 16 for b in struct.unpack(f"={len(raw) // 2}H", raw)))
        dtype = "float32"
    return list(struct.unpack(f"={len(raw) // struct.calcsize(_FORMATS[dtype])}{_FORMATS[dtype]}", raw))


def rounded(dtype: str, values: Sequence[float]) -> list[float]:
    """The values as this element type holds them."""
    return unpack(dtype, pack(dtype, values))


def compare(what: str, found: Sequence[float], expected: Sequence[float], relative: float, absolute: float) -> float:
    """The largest error as a share of what is allowed; raises if that is above 1, or anything is not a number."""
    worst = 0.0
    for index, (a, b) in enumerate(zip(found, expected, strict=True)):
        share = abs(a - b) / (absolute + relative * abs(b))
        if not share <= 1:
            raise SelfCheckFailed(f"{what}: element {index} is {a!r} but should be {b!r}")
        worst = max(worst, share)
    return worst
