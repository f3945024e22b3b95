# SPDX-License-Identifier: MIT
"""What to do about somebody else's file: the records of some causes speak of this package's own build."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.doctor._check import Finding
    from kernelwright.doctor.xray._place import Place

_OWN = "kernelwright"


def _listed(place: Place) -> str:
    """A value of TORCH_CUDA_ARCH_LIST for the GPUs of a place."""
    several = sorted({gpu.capability for gpu in place.gpus})
    return ";".join(f"{major}.{minor}" for major, minor in several)


def about(found: Finding, package: str, place: Place) -> Finding:
    """The finding with a command that is about the file's own package."""
    if found.fix or package == _OWN:
        return found
    name = package or "<package>"
    if found.code == "KW-075":
        then = (
            "Nothing has to be done: the driver compiles it on first use and keeps it, in a "
            "cache that is larger by this."
        )
        return replace(found, fix="export CUDA_CACHE_MAXSIZE=4294967296", then=then)
    if found.code == "KW-010":
        fix = (
            f'TORCH_CUDA_ARCH_LIST="{_listed(place)}" python -m pip install --no-deps '
            f"--no-build-isolation --no-binary {name} {name}"
        )
        then = (
            "That builds it for these GPUs, where its sources know them. Otherwise a release or "
            "a build of its own for them."
        )
        return replace(found, fix=fix, then=then)
    return found
