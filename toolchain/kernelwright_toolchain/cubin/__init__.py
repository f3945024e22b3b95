# SPDX-License-Identifier: MIT
"""Reads the images a device compiler made: what they are for, what is in them, what that needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright_toolchain.cubin.elf import CubinError
from kernelwright_toolchain.cubin.loaded import loaded
from kernelwright_toolchain.cubin.ptx import Ptx, bare, read_ptx
from kernelwright_toolchain.cubin.read import Cubin, Kernel, read
from kernelwright_toolchain.cubin.registers import renamed

if TYPE_CHECKING:
    from kernelwright_toolchain.targets import Code

__all__ = ["Cubin", "CubinError", "Kernel", "Ptx", "bare", "check", "loaded", "read", "read_ptx", "renamed"]


def check(image: bytes, code: Code) -> Cubin | Ptx:
    """The image's facts if it is for the code that was asked for, else CubinError."""
    facts = read(image) if code.kind == "cubin" else read_ptx(image)
    if facts.arch != code.number:
        raise CubinError(f"this {code.kind} is for GPU architecture {facts.arch}, not for {code.name}")
    return facts
