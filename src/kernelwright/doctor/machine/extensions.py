# SPDX-License-Identifier: MIT
"""Compiled parts of the installed packages that stand on torch: what xray tells of a file, of each of theirs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelwright.doctor.machine import python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernelwright.doctor._check import Finding
    from kernelwright.doctor.machine._machine import Machine

MOST = 48  # libraries that are looked into: each takes some milliseconds
_REQUIRES_TORCH = re.compile(r"^Requires-Dist: *torch\b", re.MULTILINE | re.IGNORECASE)
_NOT_THESE = frozenset({"kernelwright", "torch", "triton"})
_LIBRARY = re.compile(r"^\"?([^,\"]+\.so(?:\.[\d.]+)?)\"?,", re.MULTILINE)


@dataclass(frozen=True)
class Extension:
    """One library of a package, with what is wrong with it on this machine."""

    package: python.Package
    name: str
    """Its path below the directory of packages."""
    has_gpu_code: bool
    findings: tuple[Finding, ...]


def packages(machine: Machine) -> list[python.Package]:
    """Those that say that they require torch: extensions are among them."""
    found = []
    for several in machine.once(python.packages).values():
        first = several[0]
        if first.name not in _NOT_THESE and _REQUIRES_TORCH.search(machine.text(f"{first.info}/METADATA") or ""):
            found.append(first)
    return found


def libraries(machine: Machine) -> list[tuple[python.Package, str]]:
    """(package, path below its directory) of their libraries, as their RECORDs list them."""
    found = [
        (package, name)
        for package in packages(machine)
        for name in _LIBRARY.findall(machine.text(f"{package.info}/RECORD") or "")
        if not name.startswith(("/", "../"))
    ]
    return found[:MOST]


def extensions(machine: Machine) -> list[Extension]:
    """Each library and what xray's judgement of it here is; one that cannot be read is left to xray itself."""
    return list(_judged(machine))


def _judged(machine: Machine) -> Iterator[Extension]:
    from kernelwright.doctor.xray import installed

    names = frozenset(name for _, name in machine.once(libraries))
    for package, name in machine.once(libraries):
        place = f"{package.place}/{name}"
        told = installed.look(machine.path(place), name, names, machine) if machine.is_file(place) else None
        if told is not None:
            yield Extension(package, name, told.has_gpu_code, told.findings)


# Where torch has its own GPU code; the parts were separate libraries for some releases.
_TORCHS = ("libtorch_cuda.so", "libtorch_cuda_cu.so", "libtorch.so")


def codes_of_torch(machine: Machine) -> tuple[str, ...]:
    """The GPU codes that torch's own library has, as torch.cuda.get_arch_list() names them, without importing it."""
    from kernelwright.doctor.xray import installed

    torch = python.torch(machine)
    places = [f"{torch.place}/lib/{name}" for name in _TORCHS] if torch and torch.cuda else []
    found = (installed.codes(machine.path(place)) for place in places if machine.is_file(place))
    return next(filter(None, found), ())


def abi_of_torch(machine: Machine) -> bool | None:
    """Whether torch was built with the newer of libstdc++'s two interfaces: an extension has to be too."""
    from kernelwright.doctor.xray import symbols

    torch = python.torch(machine)
    place = f"{torch.place}/lib/libc10.so" if torch else ""
    return symbols.newer_abi(machine.path(place)) if machine.is_file(place) else None
