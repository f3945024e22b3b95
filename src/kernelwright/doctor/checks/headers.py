# SPDX-License-Identifier: MIT
"""Can the toolkit's headers stand beside the C library's?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Grade, Seen, check
from kernelwright.doctor.machine import system, toolkit
from kernelwright.doctor.remedies import shell

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

# Functions that CUDA's header declares too, and the glibc from which on that one has them.
_SINCE = {"cospi": (2, 41), "sinpi": (2, 41), "rsqrt": (2, 42)}


@check("KW-114", Grade.WARNS)
def math_declared_twice(machine: Machine) -> Seen | None:
    """The header is read, not the toolkit's release: somebody may have changed it, as the fix does."""
    libc, nvccs = system.glibc(machine), toolkit.nvccs(machine)
    if libc is None or not nvccs:
        return None
    for header in toolkit.headers(machine, nvccs[0], "crt/math_functions.h"):
        text = machine.text(header) or ""
        clash = [name for name, since in _SINCE.items() if libc >= since and re.search(rf"\b{name}\(double x\);", text)]
        if clash:
            shown = f"{libc[0]}.{libc[1]}"
            change = rf"s/\b(({'|'.join(clash)})f?)\((double|float) ([ax])\)(\)?);/\1(\3 \4) noexcept(true)\5;/"
            both = " and ".join(clash)
            return Seen(
                f"{header} declares {both} otherwise than this system's glibc {shown}: no .cu file compiles",
                f"{shell.sudo(machine)}sed -i.bak -E '{change}' {shell.quote(machine.resolved(header))}",
                "The old header stays as .bak. A newer CUDA has it so by itself; an older GCC changes nothing.",
            )
    return None
