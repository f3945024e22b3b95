# SPDX-License-Identifier: MIT
"""The system: distribution, libc, container, memory, disk."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine


def distribution(machine: Machine) -> str:
    """As it calls itself, such as "Ubuntu 22.04.4 LTS"."""
    match = re.search(r'^PRETTY_NAME="?([^"\n]+)', machine.text("/etc/os-release") or "", re.MULTILINE)
    return match[1] if match else "an unknown distribution"


def hostname(machine: Machine) -> str:
    """In a container: the name that its host knows it by, as a rule."""
    return (machine.text("/etc/hostname") or machine.variables.get("HOSTNAME", "")).strip()


def glibc(machine: Machine) -> tuple[int, int] | None:
    """The version of the C library, from its own text, or of this process where that is the same machine."""
    for place in machine.find("/lib/*-linux-gnu/libc.so.6") + machine.find("/lib64/libc.so.6"):
        match = re.search(
            r"GNU C Library .*?release version (\d{1,4})\.(\d{1,4})", (machine.raw(place) or b"").decode("latin-1")
        )
        if match:
            return int(match[1]), int(match[2])
    if machine.root == machine.root.parent:  # the root of this machine
        try:
            name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        except (ValueError, OSError):
            return None
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if name == "glibc" and numbers:
            return int(numbers[1]), int(numbers[2])
    return None


def is_musl(machine: Machine) -> bool:
    return (
        bool(machine.find("/lib/ld-musl-*"))
        and not machine.find("/lib*/ld-linux*")
        and not machine.find("/lib/*/libc.so.6")
    )


def container(machine: Machine) -> str | None:
    """What kind of container this is; None on a machine itself."""
    if machine.exists("/.dockerenv"):
        return "docker"
    if machine.exists("/run/.containerenv"):
        return "podman"
    if "SINGULARITY_NAME" in machine.variables or "APPTAINER_NAME" in machine.variables:
        return "apptainer"
    groups = machine.text("/proc/1/cgroup") or ""
    return next((name for name in ("kubepods", "docker", "lxc", "containerd") if name in groups), None)


def is_wsl(machine: Machine) -> bool:
    return "microsoft" in machine.kernel.lower() or machine.exists("/usr/lib/wsl/lib")


def memory(machine: Machine) -> tuple[int, int] | None:
    """(total, available) bytes, within the limit of this process's group."""
    lines = dict(re.findall(r"^(\w+):\s+(\d{1,15}) kB", machine.text("/proc/meminfo") or "", re.MULTILINE))
    if "MemTotal" not in lines:
        return None
    total, available = (int(lines.get(name, 0)) * 1024 for name in ("MemTotal", "MemAvailable"))
    limit = (
        machine.text("/sys/fs/cgroup/memory.max") or machine.text("/sys/fs/cgroup/memory/memory.limit_in_bytes") or ""
    ).strip()
    if re.fullmatch(r"[0-9]{1,19}", limit):
        total, available = min(total, int(limit)), min(available, int(limit))
    return total, available


def cpu(machine: Machine) -> str | None:
    """What the processor calls itself; on Arm, where it does not, its maker's and its own number."""
    text = machine.text("/proc/cpuinfo") or ""
    named = re.search(r"^(?:model name|Model)\s*:\s*(\S.*)", text, re.MULTILINE)
    if named:
        return named[1].strip()
    numbers = [re.search(rf"^CPU {name}\s*:\s*(\S+)", text, re.MULTILINE) for name in ("implementer", "part")]
    return " ".join(f"{match[0].partition(':')[0].strip()} {match[1]}" for match in numbers if match) or None


def processors(machine: Machine) -> int:
    return len(re.findall(r"^processor\s*:", machine.text("/proc/cpuinfo") or "", re.MULTILINE)) or 1
