# SPDX-License-Identifier: MIT
"""Jetson boards: which board, which L4T and JetPack, and which of the two userlands drives its GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.machine import driver

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

LAST_TEGRA = 36
"""The last release of L4T on which all boards have the Tegra userland alone."""
FIRST_SERVER_STACK = 38
"""L4T from here on has the servers' driver; the modules of that one have a number from the next on."""
_FIRST_SERVER_MODULE = 580

# Libraries of the Tegra userland. JetPack 7 still ships some, for cameras and displays, beside the servers' driver.
_TEGRA_LIBRARIES = (
    "/usr/lib/aarch64*/tegra/libcuda.so*",
    "/usr/lib/aarch64*/nvidia/libnvrm_gpu.so",
    "/usr/lib/aarch64*/tegra/libnvrm_gpu.so",
)


def model(machine: Machine) -> str | None:
    """What the board's device tree calls it; None on any other machine."""
    name = (machine.text("/proc/device-tree/model") or machine.text("/sys/firmware/devicetree/base/model") or "").strip(
        "\x00\n "
    )
    compatible = machine.text("/proc/device-tree/compatible") or ""
    return name or "an NVIDIA board" if "tegra" in compatible or "jetson" in name.lower() else None


def l4t(machine: Machine) -> tuple[int, str] | None:
    """The release of Linux for Tegra: (36, "4.3")."""
    match = re.search(
        r"#\s*R(\d{1,4})\s*\(release\),\s*REVISION:\s*([\d.]+)", machine.text("/etc/nv_tegra_release") or ""
    )
    if match:
        return int(match[1]), match[2]
    match = re.search(
        r"^Package: nvidia-l4t-core\n(?:.+\n)*?Version: (\d{1,4})\.([\d.]+)",
        machine.text("/var/lib/dpkg/status") or "",
        re.MULTILINE,
    )
    return (int(match[1]), match[2]) if match else None


def jetpack(machine: Machine) -> str | None:
    """The version of the package nvidia-jetpack, such as "6.2"."""
    match = re.search(
        r"^Package: nvidia-jetpack\n(?:.+\n)*?Version: ([\d.]+)",
        machine.text("/var/lib/dpkg/status") or "",
        re.MULTILINE,
    )
    return match[1] if match else None


def _of_servers(machine: Machine) -> bool:
    """Whether L4T's release, or in a container that does not show it the kernel module's, is one with their driver."""
    release, module = l4t(machine), driver.kernel_module(machine)
    if release is not None:
        return release[0] >= FIRST_SERVER_STACK
    return module is not None and int(module.split(".")[0]) >= _FIRST_SERVER_MODULE


def userland(machine: Machine) -> str | None:
    """ "tegra" or "sbsa": whose libcuda this aarch64 machine has; None elsewhere, and where there is no driver."""
    if machine.processor != "aarch64":
        return None
    if _of_servers(machine):
        return "sbsa"
    if any(machine.find(pattern) for pattern in _TEGRA_LIBRARIES):
        return "tegra"
    return (
        "sbsa"
        if machine.exists("/proc/driver/nvidia/version") or machine.find("/usr/lib/aarch64*/libcuda.so.1")
        else None
    )
