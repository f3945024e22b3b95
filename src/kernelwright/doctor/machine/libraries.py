# SPDX-License-Identifier: MIT
"""cuDNN and NCCL: which release a program gets, from packages of Python, else from the system's files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.machine import python

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_DIRECTORIES = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/local/cuda/lib64")


def release(machine: Machine, library: str) -> str | None:
    """The release of `library` ("cudnn", "nccl") and where it comes from; None where there is none."""
    for name, several in sorted(machine.once(python.packages).items()):
        if re.fullmatch(rf"nvidia-{library}(-cu\d+)?", name):
            return f"{several[0].version} ({name})"
    for directory in _DIRECTORIES:
        for place in machine.find(f"{directory}/lib{library}.so.*"):
            match = re.search(r"\.so\.(\d+\.\d+[\d.]*)$", machine.resolved(place))
            if match:
                return f"{match[1]} ({place})"
    return None
