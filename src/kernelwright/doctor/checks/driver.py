# SPDX-License-Identifier: MIT
"""Is there a driver, is it one, does it start?"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Grade, check
from kernelwright.doctor.machine import driver, system

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_STUB = 34  # CUDA_ERROR_STUB_LIBRARY


def _reachable(machine: Machine) -> bool:
    return "error" not in machine.driver


@check("KW-001")
def no_driver(machine: Machine) -> str | None:
    gpus = driver.gpus_on_the_bus(machine)
    if not gpus or driver.libraries(machine) or _reachable(machine) or system.container(machine):
        return None
    return (
        f"{len(gpus)} NVIDIA GPU{'s' if len(gpus) > 1 else ''} on the PCI bus ({', '.join(gpus)}), but no libcuda.so.1"
    )


@check("KW-002")
def container_without_gpu(machine: Machine) -> str | None:
    kind = system.container(machine)
    if not kind or not driver.kernel_module(machine) or _reachable(machine):
        return None
    if machine.find("/dev/nvidia[0-9]*") and driver.libraries(machine):
        return None
    return f"a {kind} container on a host with driver {driver.kernel_module(machine)}, without its devices or libraries"


@check("KW-004")
def two_versions(machine: Machine) -> str | None:
    module = driver.kernel_module(machine)
    libraries = driver.libraries(machine)
    first = driver.of_library(machine, libraries[0]) if libraries else None
    if not module or not first or first == module or "/compat/" in libraries[0]:
        return None
    return f"the kernel module is {module}, but {libraries[0]} is of {first}"


@check("KW-006")
def stub(machine: Machine) -> str | None:
    places = driver.libraries(machine)
    if places and "/stubs" in machine.resolved(places[0]):
        return f"{places[0]} comes first, and is the toolkit's stub"
    if machine.driver.get("init") == _STUB:
        return f"cuInit gives {_STUB}: {machine.driver.get('library')} says itself that it is a stub"
    return None  # a directory of stubs that holds none of that name, or comes later, harms nobody


@check("KW-007")
def nix_without_driver(machine: Machine) -> str | None:
    if (
        "IN_NIX_SHELL" not in machine.variables
        or _reachable(machine)
        or machine.exists("/run/opengl-driver/lib/libcuda.so.1")
    ):
        return None
    there = [place for place in driver.libraries(machine) if not place.startswith("/nix/")]
    return (
        f"a Nix shell; the host's driver is {there[0]}, where programs of the Nix store do not look" if there else None
    )


@check("KW-008")
def wsl(machine: Machine) -> str | None:
    if not system.is_wsl(machine) or _reachable(machine):
        return None
    if not machine.exists("/usr/lib/wsl/lib/libcuda.so.1"):
        return "WSL without /usr/lib/wsl/lib/libcuda.so.1: Windows has no NVIDIA driver with WSL support"
    return "WSL: /usr/lib/wsl/lib/libcuda.so.1 is there, but the loader does not find it"


@check("KW-009")
def does_not_start(machine: Machine) -> str | None:
    told = machine.driver
    if told.get("hung") or told.get("crashed"):
        return f"a process that opened libcuda.so.1: {told['error']}"
    status = told.get("init", 0)
    if status in {0, 100, _STUB}:  # 100: there is no GPU, which is nobody's fault; a stub is KW-006
        return None
    module = driver.kernel_module(machine) or "not loaded"
    return f"cuInit gives {status} (library {told.get('library')}, kernel module {module})"


@check("KW-012", Grade.WARNS)
def hidden_gpus(machine: Machine) -> str | None:
    value = machine.variables.get("CUDA_VISIBLE_DEVICES")
    if value is None or not driver.kernel_module(machine):
        return None
    if value.strip() in {"", "-1"}:
        return f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU"
    wrong = [
        entry
        for entry in value.split(",")
        if not re.fullmatch(r"\s*(\d+|GPU-[0-9a-fA-F-]+|MIG-(GPU-)?[0-9a-fA-F/-]+)\s*", entry)
    ]
    if wrong:
        return f"CUDA_VISIBLE_DEVICES={value!r}: {wrong[0]!r} is neither a number nor a UUID"
    there = len(driver.gpus_on_the_bus(machine))
    beyond = [entry for entry in value.split(",") if entry.strip().isdecimal() and int(entry) >= there > 0]
    if beyond:
        return (
            f"CUDA_VISIBLE_DEVICES={value!r}: {beyond[0].strip()} is not there, the machine has {there}, counted from 0"
        )
    return None


@check("KW-014")
def device_files(machine: Machine) -> str | None:
    for place in [*machine.find("/dev/nvidia[0-9]*"), *machine.find("/dev/nvmap")]:
        if not machine.may(place, os.R_OK | os.W_OK):
            return f"{place} may not be opened by this user"
    return None


@check("KW-080", Grade.WARNS)
def several_drivers(machine: Machine) -> str | None:
    versions = {
        driver.of_library(machine, place): place for place in driver.libraries(machine) if "/compat/" not in place
    }
    versions.pop(None, None)
    return f"libcuda.so.1 of {' and '.join(f'{v} ({p})' for v, p in versions.items())}" if len(versions) > 1 else None


@check("KW-015")
def no_gpu_shown(machine: Machine) -> str | None:
    """The kernel module has GPUs and CUDA shows this process none."""
    there = [place.rpartition("/")[2] for place in machine.find("/proc/driver/nvidia/gpus/*")]
    told = machine.driver
    if not there or not _reachable(machine) or told.get("gpus") or told.get("init", 0) not in {0, 100}:
        return None
    if machine.variables.get("CUDA_VISIBLE_DEVICES", "0").strip() in {"", "-1"}:
        return None  # somebody wants it so: KW-012 says it
    return f"the driver has {len(there)} GPU{'s' if len(there) > 1 else ''} ({', '.join(there)}), CUDA shows none"
