# SPDX-License-Identifier: MIT
"""Would a build find its compilers, and would they go together?"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Grade, Seen, check
from kernelwright.doctor.machine import python, system, toolkit
from kernelwright.doctor.remedies import packages, shell, toolkits

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_GIB = 1 << 30
_A_COMPILER = 2 * _GIB  # what one compiler of CUDA templates takes at least
_TMP = 2 * _GIB
_TEMPORARY = "/tmp"  # noqa: S108 - it is only named


def _shown(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


@check("KW-041", Grade.WARNS)
def nvcc_is_not_torchs(machine: Machine) -> Seen | None:
    torch, nvccs = python.torch(machine), toolkit.nvccs(machine)
    release = toolkit.release_of(machine, nvccs[0]) if nvccs else None
    if torch is None or torch.cuda is None or release is None or torch.cuda.split(".")[0] == str(release[0]):
        return None
    evidence = (
        f"{nvccs[0]} is of CUDA {_shown(release)}, torch {torch.version} of {torch.cuda}: its extensions will not build"
    )
    return Seen(evidence, *toolkits.of_release(machine, torch.cuda))


@check("KW-081", Grade.WARNS)
def wrong_cuda_home(machine: Machine) -> Seen | None:
    for name in toolkit.HOMES:
        value = machine.variables.get(name)
        wrong = _wrong_home(machine, value) if value else ""
        if wrong:
            evidence = f"{name}={value}, {wrong}"
            homes = [toolkit.home_of(machine, place) for place in toolkit.nvccs(machine)]
            if not homes:
                return Seen(
                    evidence, f"unset {name}", "There is no nvcc on this machine; kernelwright's own build needs none."
                )
            return Seen(
                evidence, f"export {name}={shell.quote(homes[0])}", "That is the toolkit that a build would find first."
            )
    return None


def _wrong_home(machine: Machine, value: str) -> str:
    """What keeps a directory from being a toolkit's; "" where it is one."""
    if ":" in value:
        return "which is a list"
    if not machine.is_file(f"{value}/bin/nvcc"):
        return "where there is no bin/nvcc"
    home = toolkit.home_of(machine, f"{value}/bin/nvcc")
    same = machine.resolved(home) == machine.resolved(value)
    return "" if same else f"whose bin/nvcc is a script that starts the one of {home}"


@check("KW-082", Grade.WARNS)
def two_toolkits(machine: Machine) -> Seen | None:
    home, first = machine.variables.get("CUDA_HOME", ""), machine.programs("nvcc")
    if not home.startswith("/") or not first or not machine.is_file(f"{home}/bin/nvcc"):
        return None
    of_path, of_home = toolkit.release_of(machine, first[0]), toolkit.release_of(machine, f"{home}/bin/nvcc")
    if of_path is None or of_home is None or of_path == of_home:
        return None
    evidence = f"{first[0]} is of {_shown(of_path)}, {home}/bin/nvcc of {_shown(of_home)}"
    other = f"Or the other one for both: export CUDA_HOME={shell.quote(toolkit.home_of(machine, first[0]))}."
    return Seen(evidence, f'export PATH={shell.quote(home)}/bin:"$PATH"', other)


@check("KW-061", Grade.WARNS)
def small_tmp(machine: Machine) -> Seen | None:
    """What compilers and pip write to: the directory for what is temporary, the home with its caches, and this one."""
    for place in (machine.variables.get("TMPDIR", _TEMPORARY), machine.variables.get("HOME", ""), _here(machine)):
        left = machine.room(place) if place.startswith("/") else None
        if left is not None and left < _TMP:
            return Seen(f"{place} has {left / _GIB:.1f} GiB left", *_room(machine, place))
    return None


def _here(machine: Machine) -> str:
    """The directory in which somebody works, unless it was deleted; a made-up machine has none."""
    try:
        return os.getcwd() if machine.root == machine.root.parent else ""  # noqa: PTH109 - as text
    except OSError:
        return ""


def _room(machine: Machine, full: str) -> tuple[str, str]:
    """For what is temporary another place with room; else less in the caches."""
    then = "docker system prune, and old environments of conda, make room too."
    if full == machine.variables.get("TMPDIR", _TEMPORARY):
        for place in ("/var/tmp", machine.variables.get("HOME", "")):  # noqa: S108 - it is only named
            if place.startswith("/") and place != full and (machine.room(place) or 0) >= _TMP:
                directory = shell.quote(f"{place}/for-builds")
                return f"mkdir -p {directory} && export TMPDIR={directory}", then
    return packages.empty_cache(machine), then


@check("KW-060", Grade.WARNS)
def little_memory(machine: Machine) -> Seen | None:
    found, jobs = system.memory(machine), system.processors(machine)
    asked = machine.variables.get("MAX_JOBS", "")
    jobs = int(asked) if re.fullmatch(r"[0-9]{1,6}", asked) else jobs
    if found is None or jobs < 2 or not toolkit.nvccs(machine):
        return None
    total, _ = found
    if total >= jobs * _A_COMPILER:
        return None
    evidence = f"{jobs} compilers at once, as build tools start them, have {total / jobs / _GIB:.1f} GiB each"
    fit = max(1, total // _A_COMPILER)
    fix = f"export MAX_JOBS={fit} CMAKE_BUILD_PARALLEL_LEVEL={fit} NVCC_THREADS=1"
    return Seen(evidence, fix, "Sources with many templates take more: halve it where a compiler is killed.")
