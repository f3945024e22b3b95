# SPDX-License-Identifier: MIT
"""Compilers of this machine: nvcc, the host GCC, and what the environment says of them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

HOMES = ("CUDA_HOME", "CUDA_PATH")


def release_of(machine: Machine, nvcc: str) -> tuple[int, int] | None:
    """The CUDA release of an nvcc, as it says itself."""
    match = re.search(r"release (\d{1,4})\.(\d{1,4})", machine.says(str(machine.path(nvcc)), "--version") or "")
    return (int(match[1]), int(match[2])) if match else None


def release_of_home(machine: Machine, home: str) -> str | None:
    """The CUDA release of a toolkit's directory without asking its compiler, which may be what it lacks."""
    match = re.search(
        r'"cuda"\s*:\s*\{[^{}]*"version"\s*:\s*"(\d{1,4}\.\d{1,4})', machine.text(f"{home}/version.json") or ""
    )
    return match[1] if match else None


def home_of(machine: Machine, nvcc: str) -> str:
    """The directory of an nvcc's toolkit: where it is, or, of a script that starts another, where that says it is."""
    home = machine.resolved(nvcc).rpartition("/bin/")[0]
    if machine.exists(f"{home}/nvvm") or machine.exists(f"{home}/include/cuda.h"):
        return nvcc.removesuffix("/bin/nvcc") if nvcc.endswith("/bin/nvcc") else home
    said = machine.says(str(machine.path(nvcc)), "--dryrun", "-x", "cu", "-c", "/dev/null") or ""
    match = re.search(r"^#\$ TOP=(/[^\n]+)$", said, re.MULTILINE)
    if match:
        return os.path.normpath(match[1].strip())
    return nvcc.removesuffix("/bin/nvcc") if nvcc.endswith("/bin/nvcc") else home


def headers(machine: Machine, nvcc: str, name: str) -> list[str]:
    """Where a header of an nvcc's own toolkit may lie."""
    home = home_of(machine, nvcc)
    return [f"{home}/include/{name}", *machine.find(f"{home}/targets/*/include/{name}")]


def newest_gcc(machine: Machine, nvcc: str) -> int | None:
    """The newest GCC that an nvcc takes, as its own header says that refuses newer ones."""
    for header in headers(machine, nvcc, "crt/host_config.h"):
        match = re.search(r"gcc versions later than (\d{1,3}) are not supported", machine.text(header) or "")
        if match:
            return int(match[1])
    return None


def nvccs(machine: Machine) -> list[str]:
    """Every nvcc: of PATH, of CUDA_HOME, of the usual places; the one that a build would take first."""
    homes = [f"{machine.variables[name]}/bin/nvcc" for name in HOMES if machine.variables.get(name, "").startswith("/")]
    usual = [
        "/usr/local/cuda/bin/nvcc",
        *machine.find("/usr/local/cuda-*/bin/nvcc"),
        *machine.find("/opt/cuda/bin/nvcc"),
    ]
    found: dict[str, str] = {}
    for place in [*machine.programs("nvcc"), *homes, *usual]:
        if machine.is_file(place):
            found.setdefault(machine.resolved(place), place)
    return list(found.values())


def named_host(machine: Machine) -> str | None:
    """The host compiler that a variable names."""
    return machine.variables.get("CUDAHOSTCXX") or machine.variables.get("NVCC_CCBIN")


def host_compiler(machine: Machine) -> tuple[str, int] | None:
    """The C++ compiler that nvcc would use and its major version."""
    named = named_host(machine) or "g++"
    places = [named] if named.startswith("/") else machine.programs(named)
    for place in places[:1]:
        match = re.match(r"(\d{1,4})", (machine.says(str(machine.path(place)), "-dumpversion") or "").strip())
        if match:
            return place, int(match[1])
    return None
