# SPDX-License-Identifier: MIT
"""Why is the driver's kernel module not loaded?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Seen, check
from kernelwright.doctor.machine import driver, system
from kernelwright.doctor.remedies import shell, systems

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
def secure_boot(machine: Machine) -> Seen | None:
    """The last byte of the variable tells; the module is there, built here, and the kernel has not taken it."""
    states = [(machine.raw(place) or b"")[-1:] for place in machine.find(_VARIABLE)]
    if b"\x01" not in states or not _not_loaded(machine) or machine.kernel not in _built_for(machine):
        return None
    key = "/var/lib/shim-signed/mok/MOK.der"
    if systems.family(machine) in {"fedora", "rhel"}:
        key = "/etc/pki/akmods/certs/public_key.der"
    key = key if systems.family(machine) != "debian" else "/var/lib/dkms/mok.pub"
    return Seen(
        f"Secure Boot is on, kernel {machine.kernel} has an nvidia module, and it is not loaded",
        f"{shell.sudo(machine)}mokutil --import {key}",
        "It asks for a password; reboot, and enroll the key by it in the blue screen.",
    )


@check("KW-103")
def not_for_this_kernel(machine: Machine) -> Seen | None:
    built = _built_for(machine)
    if not built or machine.kernel in built or not _not_loaded(machine):
        return None
    evidence = f"kernel {machine.kernel} runs; the nvidia module is there for {', '.join(built)}"
    root, kernel = shell.sudo(machine), machine.kernel
    headers = systems.install(
        machine,
        apt=f"linux-headers-{kernel}",
        dnf=f"kernel-devel-{kernel}",
        pacman="linux-headers",
        zypper="kernel-default-devel",
    )
    compiled = f"{root}akmods --force" if systems.family(machine) == "fedora" else f"{root}dkms autoinstall"
    then = "If it does not compile there, the kernel is newer than the driver: update that, or boot the older kernel."
    return Seen(evidence, f"{headers} && {compiled} && {root}modprobe nvidia", then)


@check("KW-104")
def nouveau(machine: Machine) -> Seen | None:
    loaded = re.search(r"^nouveau ", machine.text("/proc/modules") or "", re.MULTILINE)
    if not loaded or not _not_loaded(machine):
        return None
    evidence = f"nouveau is loaded, and {', '.join(driver.gpus_on_the_bus(machine))} is its"
    if not _built_for(machine):
        return Seen(evidence, *systems.driver(machine))  # whose packages keep nouveau out
    root = shell.sudo(machine)
    makes = {**dict.fromkeys(("fedora", "rhel", "amzn", "suse"), "dracut --force"), "arch": "mkinitcpio -P"}
    fix = (
        f"printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | {root}tee /etc/modprobe.d/blacklist-nouveau.conf"
    )
    return Seen(evidence, f"{fix} && {root}{makes.get(systems.family(machine), 'update-initramfs -u')}", "Then reboot.")


@check("KW-001")
def not_loaded(machine: Machine) -> Seen | None:
    """With the libraries alone cuInit says that there is no device, as on a machine that has none."""
    libraries, gpus = driver.libraries(machine), driver.gpus_on_the_bus(machine)
    if not libraries or not _not_loaded(machine) or machine.driver.get("gpus"):
        return None
    if any(known.look(machine) for known in (secure_boot, not_for_this_kernel, nouveau)):
        return None
    evidence = f"{', '.join(gpus)} on the PCI bus and {libraries[0]} are there, the kernel module nvidia is not loaded"
    if not _built_for(machine):
        return Seen(evidence, *systems.driver(machine))
    return Seen(
        evidence,
        f"{shell.sudo(machine)}modprobe nvidia",
        "If it says why not, python -m kernelwright explain knows what ends that.",
    )
