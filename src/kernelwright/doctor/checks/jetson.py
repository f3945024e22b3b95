# SPDX-License-Identifier: MIT
"""Does what is installed go with the board?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.doctor._check import Grade, check
from kernelwright.doctor.machine import jetson, python

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_FIRST_SERVER_STACK = 38  # L4T from here on has the servers' driver


def _server_libraries(machine: Machine) -> str | None:
    """A pip package of NVIDIA's CUDA libraries: those are for servers."""
    found = [name for name in python.packages(machine) if name.startswith(("nvidia-cuda-runtime", "nvidia-cublas"))]
    return found[0] if found else None


@check("KW-030")
def server_build_on_tegra(machine: Machine) -> str | None:
    libraries = _server_libraries(machine)
    if jetson.userland(machine) != "tegra" or libraries is None:
        return None
    return f"{jetson.model(machine) or 'this board'} has the Tegra userland; {libraries} is for servers"


@check("KW-032", Grade.WARNS)
def tegra_build_on_server_stack(machine: Machine) -> str | None:
    torch = python.torch(machine)
    if jetson.model(machine) is None or jetson.userland(machine) != "sbsa" or torch is None or torch.origin != "NVIDIA":
        return None
    release = jetson.l4t(machine)
    if release is None or release[0] < _FIRST_SERVER_STACK:
        return None
    return f"L4T {release[0]}.{release[1]} drives the GPU as servers do; torch {torch.version} looks like JetPack 6's"
