# SPDX-License-Identifier: MIT
"""Where a library's search path leads, and which of the libraries it needs would be found."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.machine import python
from kernelwright.doctor.xray import _place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernelwright.doctor.machine._machine import Machine

_LOADER = ("ld-linux", "linux-vdso")


def path_entry(written: str, name: str, names: frozenset[str], machine: Machine | None) -> dict[str, Any]:
    """One entry of a RUNPATH: `exists` is None where that depends on where the package will be installed."""
    if written.startswith("/"):
        there = machine.exists(written) if machine else None
        return {"path": written, "leads_to": written, "exists": there, "inside": False}
    for word in ("$ORIGIN", "${ORIGIN}"):
        if written == word or written.startswith(word + "/"):
            return _beside(written, written[len(word) :], name, names, machine)
    return {"path": written, "leads_to": None, "exists": None, "inside": False}


def _beside(written: str, rest: str, name: str, names: frozenset[str], machine: Machine | None) -> dict[str, Any]:
    place = posixpath.normpath(posixpath.join(posixpath.dirname(name), rest.lstrip("/")) or ".")
    if place.startswith(".."):  # above the directory into which wheels are installed
        return {"path": written, "leads_to": place, "exists": None, "inside": False}
    inside = place == "." or any(other.startswith(place + "/") for other in names)
    there: bool | None = inside or None
    if machine and not inside:
        there = any(machine.exists(f"{one}/{place}") for one in python.directories(machine))
    return {"path": written, "leads_to": place, "exists": there, "inside": inside}


def missing(
    needed: Iterable[str], runpath: list[dict[str, Any]], beside: frozenset[str], machine: Machine
) -> list[str]:
    """The libraries that neither this wheel nor this machine has. `beside`: the names of the wheel's own libraries."""
    places = [entry["path"] for entry in runpath if entry["path"].startswith("/")]
    packages = [entry["leads_to"] for entry in runpath if entry["exists"] and not entry["path"].startswith("/")]
    return [
        library
        for library in needed
        if library not in beside
        and not library.startswith(_LOADER)
        and not any(machine.exists(f"{place}/{library}") for place in places)
        and not any(
            machine.exists(f"{one}/{place}/{library}") for place in packages for one in python.directories(machine)
        )
        and _place.finds(machine, library) is None
    ]
