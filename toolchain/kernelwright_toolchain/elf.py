# SPDX-License-Identifier: MIT
"""The one reader of ELF: the X-ray's, which lies in src/kernelwright/doctor and is packed into this toolchain's wheel.

Its two files are loaded as modules below this one. kernelwright itself is not imported, whichever is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright_toolchain.project import carried

__path__ = [str(carried() / "kernelwright" / "doctor" / "xray")]

if TYPE_CHECKING:
    from kernelwright.doctor.xray._elf import MAGIC, NOBITS, Elf, Needs, Section, Segment, Symbol
    from kernelwright.doctor.xray._view import Damaged, View
else:
    from kernelwright_toolchain.elf._elf import MAGIC, NOBITS, Elf, Needs, Section, Segment, Symbol
    from kernelwright_toolchain.elf._view import Damaged, View

__all__ = ["MAGIC", "NOBITS", "Damaged", "Elf", "Needs", "Section", "Segment", "Symbol", "View"]
