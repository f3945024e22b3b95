# SPDX-License-Identifier: MIT
"""Is there a compiler for whatever has to be compiled here, and can the two of a pair read each other?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright import _files
from kernelwright.doctor._check import Grade, Seen, check
from kernelwright.doctor.machine import driver, python, toolkit
from kernelwright.doctor.remedies import packages, shell, systems, toolkits

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

# Where options for nvcc can stand without a command line.
_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CUDAFLAGS", "TORCH_NVCC_FLAGS", "NVCC_FLAGS")
_TOOLKITS = "/usr/local/cuda*"


def _first_nvcc(machine: Machine) -> tuple[str, tuple[int, int]] | None:
    nvccs = toolkit.nvccs(machine)
    release = toolkit.release_of(machine, nvccs[0]) if nvccs else None
    return (nvccs[0], release) if release else None


@check("KW-040", Grade.WARNS)
def toolkit_without_nvcc(machine: Machine) -> Seen | None:
    """As in images for running alone, whose /usr/local/cuda has libraries and no compiler; or it is not on PATH."""
    homes = [machine.variables[name] for name in toolkit.HOMES if machine.variables.get(name)]
    places = [place for place in machine.find(_TOOLKITS) if machine.find(f"{place}/lib64")]
    if not places or machine.programs("nvcc") or homes:
        return None
    there = [place for place in places if machine.exists(f"{place}/bin/nvcc")]
    if "/usr/local/cuda" in there:
        return None  # where build tools look of their own accord
    if there:
        return Seen(f"{there[0]}/bin/nvcc is not on PATH", toolkits.use(there[0]))
    evidence, torch = f"{places[0]} has libraries and no bin/nvcc", python.torch(machine)
    return Seen(
        evidence,
        *toolkits.install(machine, (torch.cuda if torch else None) or toolkit.release_of_home(machine, places[0])),
    )


@check("KW-042", Grade.WARNS)
def host_compiler_too_new(machine: Machine) -> Seen | None:
    nvcc, host = _first_nvcc(machine), toolkit.host_compiler(machine)
    if nvcc is None or host is None:
        return None
    most = toolkit.newest_gcc(machine, nvcc[0])
    if most is None:
        rows = _files.read(_files.TARGETS)["toolkits"].values()
        most = next((row["gcc"]["max"] for row in rows if row["release"] == ".".join(map(str, nvcc[1]))), None)
    if most is None or host[1] <= most:
        return None
    evidence = f"{host[0]} is GCC {host[1]}; {nvcc[0]} of CUDA {'.'.join(map(str, nvcc[1]))} takes GCC {most} at most"
    return Seen(evidence, *toolkits.older_gcc(machine, most))


@check("KW-043", Grade.WARNS)
def check_silenced(machine: Machine) -> Seen | None:
    for name in _FLAGS:
        if re.search(r"-allow-unsupported-compiler\b", machine.variables.get(name, "")):
            rest = re.sub(r"\s*-{1,2}allow-unsupported-compiler\b", "", machine.variables[name]).strip()
            fix = f"export {name}={shell.quote(rest)}" if rest else f"unset {name}"
            then = "A compiler that nvcc refuses is then named, with the newest that it takes (KW-042)."
            return Seen(f"{name}={machine.variables[name]}", fix, then)
    return None


@check("KW-046", Grade.WARNS)
def no_host_compiler(machine: Machine) -> Seen | None:
    """nvcc needs a C++ compiler whatever it compiles, Triton a C compiler for each kernel's launcher."""
    nvccs = toolkit.nvccs(machine)
    if nvccs and not machine.programs("g++") and not machine.programs("clang++") and not toolkit.named_host(machine):
        return Seen(f"{nvccs[0]} is there, and no g++ is on PATH", *_compilers(machine))
    triton = machine.once(python.packages).get("triton")
    if triton and "CC" not in machine.variables and not any(map(machine.programs, ("cc", "gcc", "clang"))):
        evidence = f"triton {triton[0].version} compiles what launches its kernels, and no C compiler is on PATH"
        return Seen(evidence, *_compilers(machine))
    return None


def _compilers(machine: Machine) -> tuple[str, str]:
    fix = systems.install(
        machine, apt="build-essential python3-dev", dnf="gcc gcc-c++ make python3-devel", pacman="base-devel",
        zypper="gcc gcc-c++ make python3-devel", apk="build-base python3-dev",
    )  # fmt: skip
    return (
        fix,
        "Without the right to do that: conda install -c conda-forge cxx-compiler. CC and CXX name another one.",
    )


@check("KW-047", Grade.WARNS)
def no_ninja(machine: Machine) -> Seen | None:
    """torch builds extensions through ninja; without it one file after the other, or not at all."""
    if python.torch(machine) is None or not toolkit.nvccs(machine):
        return None
    found = machine.programs("ninja")
    if not found:
        evidence = "nvcc and torch are here and ninja is not: extensions are built one file at a time, or not at all"
        return Seen(evidence, packages.pip(machine, "install", "ninja"))
    said = machine.says(str(machine.path(found[0])), "--version")
    if re.match(r"\d+\.\d+", (said or "").strip()):
        return None
    evidence = f"{found[0]} does not run: {(said or 'no word')[:120]}"
    return Seen(evidence, packages.pip(machine, "install", "--force-reinstall", "ninja"))


@check("KW-003", Grade.WARNS)
def nvcc_newer_than_driver(machine: Machine) -> Seen | None:
    """Within one major version a program starts all the same; across two it does not."""
    nvcc, level = _first_nvcc(machine), machine.driver.get("level")
    if nvcc is None or not level or nvcc[1][0] <= level // 1000:
        return None
    shown = ".".join(map(str, nvcc[1]))
    evidence = (
        f"{nvcc[0]} is of CUDA {shown}, the driver's level is {driver.shown(level)}: what it builds does not start here"
    )
    fix, then = systems.driver(machine, toolkits.driver_for(str(nvcc[1][0])))
    return Seen(evidence, fix, f"{then} Or build with a toolkit of CUDA {level // 1000}.")
