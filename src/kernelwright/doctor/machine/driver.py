# SPDX-License-Identifier: MIT
"""The driver's files: which libcuda.so.1 there are, and which version the kernel has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_PLACES = (
    "/usr/lib/*-linux-gnu/libcuda.so.1",
    "/usr/lib/*-linux-gnu/tegra/libcuda.so.1",
    "/usr/lib/*-linux-gnu/nvidia/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/lib64/nvidia/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/local/cuda*/compat/libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
    "/opt/*/lib64/libcuda.so.1",
)


def kernel_module(machine: Machine) -> str | None:
    """The version of the loaded kernel module, such as "550.90.07"."""
    match = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", machine.text("/proc/driver/nvidia/version") or "")
    return match[1] if match else None


def shown(level: int) -> str:
    """A CUDA level, a thousand for each major version and ten for each minor, as people write it."""
    return f"{level // 1000}.{level % 1000 // 10}"


def search_path(machine: Machine) -> list[str]:
    """The directories of LD_LIBRARY_PATH."""
    return [entry for entry in machine.variables.get("LD_LIBRARY_PATH", "").split(":") if entry]


def libraries(machine: Machine) -> list[str]:
    """Every libcuda.so.1 of the usual places and of LD_LIBRARY_PATH, links to one file once, in the order of search."""
    places = [f"{entry}/libcuda.so.1" for entry in search_path(machine)]
    places += [place for pattern in _PLACES for place in machine.find(pattern)]
    found: dict[str, str] = {}
    for place in places:
        if machine.exists(place):
            found.setdefault(machine.resolved(place), place)
    return list(found.values())


def of_library(machine: Machine, place: str) -> str | None:
    """The driver's version that a libcuda.so.1 is of: in the name of the file it stands for."""
    match = re.search(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)?)$", machine.resolved(place))
    return match[1] if match else None


def gpus_on_the_bus(machine: Machine) -> list[str]:
    """NVIDIA's display and compute devices as PCI shows them, whether or not a driver is loaded."""
    found = []
    for device in machine.find("/sys/bus/pci/devices/*"):
        vendor, kind = machine.text(f"{device}/vendor") or "", machine.text(f"{device}/class") or ""
        if vendor.strip() == "0x10de" and kind.strip().startswith(("0x0300", "0x0302")):
            found.append(device.rpartition("/")[2])
    return found
