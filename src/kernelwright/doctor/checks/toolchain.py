# SPDX-License-Identifier: MIT
"""Would a build find its compilers, and would they go together?"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Grade, check
from kernelwright.doctor.machine import python, system, toolkit

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_GIB = 1 << 30
_A_COMPILER = 2 * _GIB  # what one compiler of CUDA templates takes at least
_TMP = 2 * _GIB


def _shown(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


@check("KW-041", Grade.WARNS)
def nvcc_is_not_torchs(machine: Machine) -> str | None:
    torch, nvccs = python.torch(machine), toolkit.nvccs(machine)
    release = toolkit.release_of(machine, nvccs[0]) if nvccs else None
    if torch is None or torch.cuda is None or release is None or torch.cuda.split(".")[0] == str(release[0]):
        return None
    return (
        f"{nvccs[0]} is of CUDA {_shown(release)}, torch {torch.version} of {torch.cuda}: its extensions will not build"
    )


@check("KW-081", Grade.WARNS)
def wrong_cuda_home(machine: Machine) -> str | None:
    for name in toolkit.HOMES:
        value = machine.variables.get(name)
        if value and (":" in value or not machine.is_file(f"{value}/bin/nvcc")):
            return f"{name}={value}, {'which is a list' if ':' in value else 'where there is no bin/nvcc'}"
    return None


@check("KW-082", Grade.WARNS)
def two_toolkits(machine: Machine) -> str | None:
    home, first = machine.variables.get("CUDA_HOME", ""), machine.programs("nvcc")
    if not home.startswith("/") or not first or not machine.is_file(f"{home}/bin/nvcc"):
        return None
    of_path, of_home = toolkit.release_of(machine, first[0]), toolkit.release_of(machine, f"{home}/bin/nvcc")
    if of_path is None or of_home is None or of_path == of_home:
        return None
    return f"{first[0]} is of {_shown(of_path)}, {home}/bin/nvcc of {_shown(of_home)}"


@check("KW-061", Grade.WARNS)
def small_tmp(machine: Machine) -> str | None:
    """What compilers and pip write to: the directory for what is temporary, the home with its caches, and this one."""
    here = (os.curdir,) if machine.root == machine.root.parent else ()
    of_variables = (machine.variables.get("TMPDIR", "/tmp"), machine.variables.get("HOME", ""))  # noqa: S108
    for place in (*of_variables, *here):
        path = machine.path(place) if place.startswith("/") else place
        try:
            facts = os.statvfs(path) if place and os.access(path, os.W_OK) else None
        except (OSError, ValueError):
            continue
        if facts is not None and facts.f_bavail * facts.f_frsize < _TMP:
            return f"{place} has {facts.f_bavail * facts.f_frsize / _GIB:.1f} GiB left"
    return None


@check("KW-060", Grade.WARNS)
def little_memory(machine: Machine) -> str | None:
    found, jobs = system.memory(machine), system.processors(machine)
    asked = machine.variables.get("MAX_JOBS", "")
    jobs = int(asked) if re.fullmatch(r"[0-9]{1,6}", asked) else jobs
    if found is None or jobs < 2 or not toolkit.nvccs(machine):
        return None
    total, _ = found
    if total >= jobs * _A_COMPILER:
        return None
    return f"{jobs} compilers at once, as build tools start them, have {total / jobs / _GIB:.1f} GiB each; set MAX_JOBS"
