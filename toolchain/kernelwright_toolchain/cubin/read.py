# SPDX-License-Identifier: MIT
"""What a cubin says about itself: its architecture, its kernels and what each of them needs.

Two encodings of the architecture exist. The older (OS ABI 51, version 7), which CUDA 12 writes for the GPUs up to
Hopper: the number in the low byte of e_flags, `a` in bit 11. The newer (OS ABI 65, version 8), which late CUDA 12
writes for Blackwell and CUDA 13 for all: the number in the second byte, `a` in bit 3, then in the section .nv.compat.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kernelwright_toolchain.cubin import info
from kernelwright_toolchain.cubin.elf import CubinError, Elf

CUDA_MACHINE = 190
ENTRY = 0x10  # bit of st_other: a kernel, not a device function
UNKNOWN = 0xFFFFFFFF  # what ptxas writes for the stack of a kernel that calls itself
FUNCTION, OBJECT = 2, 1


@dataclass(frozen=True)
class Kernel:
    """Sizes in bytes. `shared` is static and counts what the system reserves, as cuobjdump does."""

    name: str
    registers: int
    shared: int
    stack: int
    constant: int
    max_threads: int  # of a block; 0 if the source does not say


@dataclass(frozen=True)
class Cubin:
    arch: str  # the part after sm_: digits, then `a` if it is for that very GPU
    kernels: tuple[Kernel, ...]  # sorted by name
    symbols: tuple[str, ...]  # of functions and objects, in the file's order


def _accelerated(elf: Elf) -> bool:
    if elf.abi == 7:
        return bool(elf.flags & 0x800)
    compat = elf.by_name.get(".nv.compat")
    marks = dict(info.records(elf.content(compat))) if compat else {}
    return bool(elf.flags & 8) or marks.get(info.COMPAT_ACCELERATED, b"")[:1] == b"\1"


def _arch(elf: Elf) -> str:
    if elf.machine != CUDA_MACHINE:
        raise CubinError(f"an ELF file for machine {elf.machine}, not for a GPU ({CUDA_MACHINE})")
    shift = {(51, 7): 0, (65, 8): 8}.get((elf.osabi, elf.abi))
    if shift is None:
        raise CubinError(f"unknown cubin ABI {elf.abi} (OS ABI {elf.osabi}); known are 7 (51) and 8 (65)")
    number = elf.flags >> shift & 0xFF
    return f"{number}{'a' if _accelerated(elf) else ''}"


def _resources(elf: Elf) -> dict[int, dict[int, int]]:
    """attribute -> symbol index -> value, of .nv.info."""
    found: dict[int, dict[int, int]] = {info.REGISTERS: {}, info.FRAME_SIZE: {}, info.MIN_STACK_SIZE: {}}
    section = elf.by_name.get(".nv.info")
    for attribute, value in info.records(elf.content(section)) if section else ():
        if attribute in found:
            symbol, number = info.words(value, 2, f".nv.info attribute {attribute:#x}")
            if number != UNKNOWN:
                found[attribute][symbol] = number
    return found


def _max_threads(elf: Elf, name: str) -> int:
    section = elf.by_name.get(f".nv.info.{name}")
    threads = 0
    for attribute, value in info.records(elf.content(section)) if section else ():
        if attribute in {info.MAX_THREADS, info.REQUIRED_THREADS}:
            threads = prod(info.words(value, 3, f".nv.info.{name} attribute {attribute:#x}"))
    return threads


def _size(elf: Elf, section: str) -> int:
    return elf.by_name[section].size if section in elf.by_name else 0


def _kernels(elf: Elf) -> tuple[Kernel, ...]:
    found = _resources(elf)
    kernels = []
    for index, symbol in enumerate(elf.symbols):
        if symbol.kind != FUNCTION or not symbol.other & ENTRY:
            continue
        name = symbol.name
        if f".text.{name}" not in elf.by_name:
            raise CubinError(f"kernel {name!r} has no code section")
        if index not in found[info.REGISTERS]:
            raise CubinError(f"kernel {name!r} has no register count in .nv.info")
        kernels.append(
            Kernel(
                name=name,
                registers=found[info.REGISTERS][index],
                shared=_size(elf, f".nv.shared.{name}"),
                stack=max(found[info.FRAME_SIZE].get(index, 0), found[info.MIN_STACK_SIZE].get(index, 0)),
                constant=_size(elf, f".nv.constant0.{name}"),
                max_threads=_max_threads(elf, name),
            )
        )
    if not kernels:
        raise CubinError("no kernel in it: is every __global__ function a template that nothing uses?")
    return tuple(sorted(kernels, key=lambda kernel: kernel.name))


def read(image: bytes) -> Cubin:
    """The facts of a cubin, or CubinError."""
    elf = Elf(image)
    symbols = tuple(s.name for s in elf.symbols if s.kind in {FUNCTION, OBJECT})
    return Cubin(_arch(elf), _kernels(elf), symbols)
