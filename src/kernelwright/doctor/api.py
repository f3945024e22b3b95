# SPDX-License-Identifier: MIT
"""What a package needs to ship causes and cures of its own: an entry point of the group `kernelwright.causes` names a
module with `CAUSES`, and whatever functions of that module `of` marks make their commands. See docs/own-causes.md.
"""

from kernelwright.doctor._cause import Area, Cause, Sign, number, sign
from kernelwright.doctor.explain.cures._cure import Cure, of
from kernelwright.doctor.explain.said import Said

__all__ = ["Area", "Cause", "Cure", "Said", "Sign", "number", "of", "sign"]
