# SPDX-License-Identifier: MIT
"""Why is the driver's kernel module not loaded?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor._check import check
from kernelwright.doctor.machine import driver, system

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-*"


def _not_loaded(machine: Machine) -> bool:
    """There is a GPU that the module ought to drive, and it is this system's own business."""
    return (
        bool(driver.gpus_on_the_bus(machine))
        and driver.kernel_module(machine) is None
        and not system.container(machine)
        and not system.is_wsl(machine)
    )


def _built_for(machine: Machine) -> list[str]:
    """The kernels that have an nvidia module, wherever in their tree."""
    built = machine.find("/lib/modules/*/*/nvidia.ko*") + machine.find("/lib/modules/*/*/*/nvidia.ko*")
    built += machine.find("/lib/modules/*/kernel/drivers/*/nvidia.ko*")
    return sorted({place.split("/")[3] for place in built})


@check("KW-102")
def secure_boot(machine: Machine) -> str | None:
    """The last byte of the variable tells; the module is there, built here, and the kernel has not taken it."""
    states = [(machine.raw(place) or b"")[-1:] for place in machine.find(_VARIABLE)]
    if b"\x01" not in states or not _not_loaded(machine) or machine.kernel not in _built_for(machine):
        return None
    return f"Secure Boot is on, kernel {machine.kernel} has an nvidia module, and it is not loaded"


@check("KW-103")
def not_for_this_kernel(machine: Machine) -> str | None:
    built = _built_for(machine)
    if not built or machine.kernel in built or not _not_loaded(machine):
        return None
    return f"kernel {machine.kernel} runs; the nvidia module is there for {', '.join(built)}"


@check("KW-104")
def nouveau(machine: Machine) -> str | None:
    loaded = re.search(r"^nouveau ", machine.text("/proc/modules") or "", re.MULTILINE)
    return (
        f"nouveau is loaded, and {', '.join(driver.gpus_on_the_bus(machine))} is its"
        if (loaded and _not_loaded(machine))
        else None
    )


@check("KW-001")
def not_loaded(machine: Machine) -> str | None:
    """With the libraries alone cuInit says that there is no device, as on a machine that has none."""
    libraries, gpus = driver.libraries(machine), driver.gpus_on_the_bus(machine)
    if not libraries or not _not_loaded(machine) or machine.driver.get("gpus"):
        return None
    if any(known.look(machine) for known in (secure_boot, not_for_this_kernel, nouveau)):
        return None
    return f"{', '.join(gpus)} on the PCI bus and {libraries[0]} are there, the kernel module nvidia is not loaded"
