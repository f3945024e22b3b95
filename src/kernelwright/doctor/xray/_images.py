# SPDX-License-Identifier: MIT
"""Device code by itself: what a cubin or a PTX file says about itself, mostly at its beginning."""

from __future__ import annotations

import io
import re
import struct
from dataclasses import dataclass

from kernelwright.doctor.xray import _elf, _unpack
from kernelwright.doctor.xray._view import Damaged, View

HEAD = 1 << 16  # bytes: notes and names stand at the beginning

_RELEASE = re.compile(rb"Cuda compilation tools, release (\d+\.\d+), V(\d+\.\d+\.\d+)")
_NOTE_ARCH = re.compile(rb"-arch sm_(\d+[af]?)\b")
_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d+[af]?)\b", re.MULTILINE)
_VERSION = re.compile(rb"^\s*\.version\s+(\d{1,3})\.(\d{1,3})\b", re.MULTILINE)
_PTX_KERNEL = re.compile(rb"\.entry\s+([A-Za-z_$%][\w$]*)")

_FUNCTION, _KERNEL = 2, 0x10  # a symbol's kind; the bit of st_other that a kernel has


@dataclass(frozen=True)
class Image:
    """A file that is one image."""

    kind: str
    arch: str
    version: tuple[int, int]


def is_ptx(head: bytes) -> bool:
    return bool(_TARGET.search(head) and _VERSION.search(head))


def ptx(head: bytes) -> Image:
    target, version = _TARGET.search(head), _VERSION.search(head)
    if not target or not version:
        raise Damaged("a PTX file has no .version or no .target line")
    return Image("ptx", target[1].decode(), (int(version[1]), int(version[2])))


def is_cubin(head: bytes) -> bool:
    return (
        len(head) >= 20 and head[:6] == _elf.MAGIC + b"\x02\x01" and struct.unpack_from("<H", head, 18)[0] == _elf.GPU
    )


def cubin(head: bytes) -> Image:
    """The architecture stands in e_flags: in the low byte until CUDA 12, in the second byte of the newer encoding."""
    elf = _elf.Elf(View(head))
    if (elf.osabi, elf.abi) == (51, 7):
        return Image("sass", f"{elf.flags & 0xFF}{'a' if elf.flags & 0x800 else ''}", (1, elf.abi))
    if elf.abi != 8:
        raise Damaged(f"a cubin of the unknown encoding {elf.abi}")
    number = elf.flags >> 8 & 0xFF
    # The suffix stands in a section at the end of the file; the compiler's note, near the beginning, has it too.
    note = _NOTE_ARCH.search(head)
    suffix = "a" if elf.flags & 8 else ""
    if note and note[1].rstrip(b"af") == str(number).encode():
        suffix = note[1].decode()[len(str(number)) :]
    return Image("sass", f"{number}{suffix}", (1, elf.abi))


def release(head: bytes) -> str | None:
    """The compiler's version, three numbers, where the image has its note."""
    found = _RELEASE.search(head)
    return found[2].decode() if found else None


def kernels(kind: str, image: bytes) -> list[str]:
    """The names of the kernels of a whole image, as the compiler wrote them."""
    if kind == "ptx":
        return sorted({name.decode() for name in _PTX_KERNEL.findall(image)})
    try:
        symbols = list(_elf.Elf(View(image)).symbols(".symtab"))
    except _elf.Unusual:
        symbols = _by_pyelftools(image)
    return sorted({one.name for one in symbols if one.kind == _FUNCTION and one.other & _KERNEL})


def _by_pyelftools(image: bytes) -> list[_elf.Symbol]:
    """It finds the sections in every form of ELF. What is wrong with a damaged file it says in many ways."""
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:
        raise _unpack.CannotUnpack("pip install 'kernelwright[xray]' brings what reads this form of ELF") from None
    try:
        elf = ELFFile(io.BytesIO(image))
        table = elf.get_section_by_name(".symtab")
        if table is None:
            return []
        # Its own symbols lack the bit that a kernel has.
        wide, names = elf.elfclass == 64, View(table.stringtable.data())
        entries = struct.iter_unpack("<IBBHQQ" if wide else "<IIIBBH", table.data())
        rows = ((one[0], one[1], one[2]) if wide else (one[0], one[3], one[4]) for one in entries)
        return [_elf.Symbol(names.text(at), info & 15, other, section=1) for at, info, other in rows]
    except Exception as error:  # noqa: BLE001
        raise Damaged(f"pyelftools cannot read it: {error}") from None
