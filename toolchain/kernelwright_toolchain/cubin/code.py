# SPDX-License-Identifier: MIT
"""What a kernel's machine code does with tensor cores, read from its bytes: no disassembler is needed to build.

Of GPUs with wgmma; an instruction is 16 bytes, its kind in the lowest nine bits.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import groupby

from kernelwright_toolchain.cubin.elf import Elf

_PRODUCTS = {0x1F0: "HGMMA", 0x1F1: "IGMMA", 0x1F3: "QGMMA"}
_LOCAL = {0x183, 0x187}  # LDL, STL
_WARPGROUP, _WAIT_BIT = 0x1C5, 1 << 47  # WARPGROUP.DEPBAR; without the bit it is WARPGROUP.ARRIVE
_MUFU, _FUNCTION, _EX2 = 0x108, 10, 2


@dataclass(frozen=True)
class Code:
    """Of one kernel."""

    bytes: int
    local: int  # loads and stores of local memory
    order: tuple[tuple[str, int], ...]  # products, waits for them and exponentials: how many of a kind in a row

    def __str__(self) -> str:
        return " ".join(name if count == 1 else f"{name}*{count}" for name, count in self.order)


def _kind(low: int, high: int) -> str | None:
    kind = low & 0x1FF
    if kind == _WARPGROUP and low & _WAIT_BIT:
        return "WAIT"
    if kind == _MUFU and high >> _FUNCTION & 15 == _EX2:
        return "EX2"
    return _PRODUCTS.get(kind)


def code_of(image: bytes, kernel: str) -> Code:
    """Of a kernel that the cubin has."""
    elf = Elf(image)
    return read_code(elf.content(elf.by_name[f".text.{kernel}"]))


def read_code(text: bytes) -> Code:
    """Of its instructions."""
    words = list(struct.iter_unpack("<QQ", text[: len(text) // 16 * 16]))
    kinds = [kind for kind in (_kind(*word) for word in words) if kind]
    order = tuple((kind, len(list(run))) for kind, run in groupby(kinds))
    return Code(len(text), sum(low & 0x1FF in _LOCAL for low, _ in words), order)


def multiplies(code: Code) -> bool:
    """Whether warpgroups multiply in it."""
    return any(name in _PRODUCTS.values() for name, _ in code.order)
