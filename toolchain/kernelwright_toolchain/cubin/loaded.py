# SPDX-License-Identifier: MIT
"""All that is loaded of a cubin, as one digest: two images that share it do the same on a GPU that runs both.

Everything counts, and what does not is named here: where in the file things lie, the architecture's number in the ELF
header, notes and debug sections, and one mark that says for which GPUs a fault of the hardware was thought of.
"""

from __future__ import annotations

import hashlib

from kernelwright_toolchain.cubin import info
from kernelwright_toolchain.cubin.elf import NOBITS, CubinError, Elf, Section, Segment

# Not read by whoever loads the code.
_TEXTS = (".note", ".comment", ".debug", ".nv_debug")
# The bits of e_flags that are the number of an architecture, by the version of the ABI (cubin/read.py); in
# the older one also that of the PTX that it was made of. What is left includes the bit of the suffix `a`.
_NUMBERS = {7: 0xFF00FF, 8: 0xFFFF00}
# EIATTR_SW2861232_WAR, as ptxas calls it: it marks every kernel for the first GPUs of a family with it and
# none for the later ones, whatever the code. It has no value and names no address, and the driver of a later GPU meets
# it in all code that was compiled for an earlier one.
_WORKAROUND = 0x35
_INFO = ".nv.info"


def _content(elf: Elf, section: Section) -> object:
    if section.name.startswith(_TEXTS):
        return None
    if section.kind == NOBITS:
        return section.size
    content = elf.content(section)
    if section.name == _INFO or section.name.startswith(f"{_INFO}."):
        return [record for record in info.records(content) if record[0] != _WORKAROUND]
    return content


def _covers(segment: Segment, section: Section) -> bool:
    """Whether the section's bytes lie in it; between them is padding."""
    return segment.offset <= section.offset and section.offset + section.size <= segment.offset + segment.size


def loaded(image: bytes) -> str:
    """The sha256 of what is loaded of this cubin, or CubinError."""
    elf = Elf(image)
    if elf.abi not in _NUMBERS:
        raise CubinError(f"unknown cubin ABI {elf.abi}; known are {', '.join(map(str, _NUMBERS))}")
    digest = hashlib.sha256()
    head = (elf.kind, elf.machine, elf.version, elf.osabi, elf.abi, elf.flags & ~_NUMBERS[elf.abi])
    digest.update(repr(head).encode())
    for part in elf.sections:
        header = (part.name, part.kind, part.flags, part.address, part.link, part.info, part.align, part.entry)
        digest.update(repr((header, _content(elf, part))).encode())
    for segment in elf.segments():
        inside = [part.name for part in elf.sections if part.kind != NOBITS and part.size and _covers(segment, part)]
        digest.update(repr((segment.kind, segment.flags, segment.align, inside)).encode())
    return digest.hexdigest()
