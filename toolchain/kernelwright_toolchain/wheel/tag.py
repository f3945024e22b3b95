# SPDX-License-Identifier: MIT
"""The platform tag a library has earned: read from what it needs, never from what it was meant to need."""

from __future__ import annotations

import re

from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.targets import Target
from kernelwright_toolchain.wheel.elf import Needs

# The C library's own parts: all a library of ours may need.
_OWN = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux-[a-z0-9-]+)\.so\.\d+")


def platform_tag(needs: Needs, target: Target, library: str) -> str:
    """The target's tag if the library keeps to the target's floor; else the lowest one that is true.

    GateError for a library that needs more of a system than its C library.
    """
    alien = [name for name in needs.libraries if not _OWN.fullmatch(name)]
    if alien:
        raise GateError(
            f"{library} needs {', '.join(alien)}; it may need the C library alone ({', '.join(needs.libraries)} "
            "were found), or it would not load everywhere the wheel says. Link that in, or do without"
        )
    floor = max(needs.glibc, target.glibc)
    if floor == target.glibc:
        return target.platform_tag
    return f"manylinux_{floor.parts[0]}_{floor.parts[1]}_{target.machine}"


def check_floor(needs: Needs, target: Target, library: str) -> None:
    """GateError if a library made for the target's floor asks for a newer C library."""
    if needs.glibc > target.glibc:
        names = sorted({version for _, version in needs.versions})
        raise GateError(
            f"{library} asks for glibc {needs.glibc}, above {target.name}'s floor of {target.glibc} "
            f"({', '.join(names)}); the compiler was not given the floor, or a newer function is called"
        )
