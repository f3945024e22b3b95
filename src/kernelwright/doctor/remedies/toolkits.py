# SPDX-License-Identifier: MIT
"""Compilers: a toolkit of the release that is asked for, and a GCC that an nvcc takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright import _files
from kernelwright.doctor.machine import toolkit
from kernelwright.doctor.remedies.shell import quote, sudo
from kernelwright.doctor.remedies.systems import family
from kernelwright.doctor.remedies.systems import install as install_package

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine


_FORGET = "Then delete the build directory, which remembers the other."


def use(home: str) -> str:
    return f'export CUDA_HOME={quote(home)} PATH={quote(home)}/bin:"$PATH"'


def install(machine: Machine, release: str | None) -> tuple[str, str]:
    """A toolkit with its compiler; of one release where that matters."""
    dashed = f"-{release.replace('.', '-')}" if release else ""
    home = f"/usr/local/cuda-{release}" if release else "/usr/local/cuda"
    if family(machine) == "arch":
        return f"{sudo(machine)}pacman -S --needed cuda && {use('/opt/cuda')}", "It is the newest release alone."
    fix = install_package(
        machine, apt=f"cuda-toolkit{dashed}", dnf=f"cuda-toolkit{dashed}", zypper=f"cuda-toolkit{dashed}"
    )
    of_conda = f"cuda-toolkit={release}" if release else "cuda-toolkit"
    then = f"The package is in NVIDIA's repository (KW-105). Without root: conda install -c conda-forge {of_conda}."
    return f"{fix} && {use(home)}", then


def of_release(machine: Machine, release: str) -> tuple[str, str]:
    """Takes the toolkit of a release that is here already, or installs it."""
    for place in toolkit.nvccs(machine):
        found = toolkit.release_of(machine, place)
        if found is not None and f"{found[0]}.{found[1]}" == release:
            return use(toolkit.home_of(machine, place)), _FORGET
    return install(machine, release)


def from_release(machine: Machine, first: str) -> tuple[str, str]:
    """Takes a toolkit that is here and not older than a release, the oldest of them; or installs that release."""
    wanted = tuple(map(int, first.split(".")))
    releases = ((toolkit.release_of(machine, place), place) for place in toolkit.nvccs(machine))
    fit = sorted((release, place) for release, place in releases if release is not None and release >= wanted)
    return (use(toolkit.home_of(machine, fit[0][1])), _FORGET) if fit else install(machine, first)


def older_gcc(machine: Machine, newest: int) -> tuple[str, str]:
    """The newest GCC that an nvcc takes, and the variables that name it to CMake and to nvcc."""
    name = f"g++-{newest}"
    say = f"export CUDAHOSTCXX={name} NVCC_CCBIN={name}"
    if machine.programs(name):
        return say, "It is here already. In a CMake build that knows another: delete the build directory."
    root, apart = sudo(machine), f"gcc-toolset-{newest}"
    ways = {
        "rhel": f"{root}dnf install -y {apart}-gcc-c++ && . /opt/rh/{apart}/enable",
        "fedora": f"{root}dnf install -y gcc{newest}-c++ && {say}",
        "amzn": f"{root}dnf install -y gcc{newest}-c++ && {say}",
        "arch": f"{root}pacman -S --needed gcc{newest} && {say}",
        "suse": f"{root}zypper install -y gcc{newest}-c++ && {say}",
    }
    fix = ways.get(family(machine)) or f"{install_package(machine, apt=name)} && {say}"
    return (
        fix,
        f"Or conda install -c conda-forge gxx={newest}, which sets CXX; or a CUDA release that takes the newer GCC.",
    )


def driver_for(release: str) -> str:
    """What a driver has to be for programs of a CUDA release, or of the first that is known of a major version."""
    rows = _files.read(_files.TARGETS)["toolkits"].values()
    fit = [row["driver"] for row in rows if row["release"] == release or row["release"].startswith(f"{release}.")]
    return f"{fit[0]['linux']} or newer (CUDA {fit[0]['cuda']})" if fit else f"one of CUDA {release} or newer"


def release_of_ptx(version: str) -> str:
    """The CUDA release whose PTX it is; "" where that is none of those that are known."""
    rows = _files.read(_files.TARGETS)["toolkits"].values()
    return next((row["release"] for row in rows if row["ptx"] == version), "")
