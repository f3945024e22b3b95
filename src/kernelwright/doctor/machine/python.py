# SPDX-License-Identifier: MIT
"""The Python that runs, and the packages it would import: read from their files, never imported."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine


@dataclass(frozen=True)
class Package:
    """An installed distribution: from its .dist-info."""

    name: str
    version: str
    place: str
    """The directory it is installed in."""
    installer: str
    """Who put it there: "pip", "conda", "uv", …; "" where that is not said."""
    info: str = ""
    """Its .dist-info."""


def directories(machine: Machine) -> list[str]:
    """Where packages are looked for, on that machine."""
    if machine.root == Path("/"):
        return [entry for entry in sys.path if entry and os.path.isdir(entry)]  # noqa: PTH112 - which raises nothing
    return [*machine.find("/usr/lib/python3/dist-packages"), *machine.find("/usr/local/lib/python3*/*-packages")]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def packages(machine: Machine) -> dict[str, list[Package]]:
    """Every installed distribution by its normalised name, in the order in which imports would find them."""
    found: dict[str, list[Package]] = {}
    for directory in directories(machine):
        for info in machine.find(f"{directory}/*.dist-info"):
            name, _, version = info.rpartition("/")[2].removesuffix(".dist-info").partition("-")
            installer = (machine.text(f"{info}/INSTALLER") or "").strip()
            found.setdefault(_normal(name), []).append(Package(_normal(name), version, directory, installer, info))
    return found


def tag(machine: Machine) -> str | None:
    """The digits of its extension modules' names, such as "311"; of a made-up machine those of its directory."""
    if machine.root == Path("/"):
        return f"{sys.version_info[0]}{sys.version_info[1]}"
    found = [re.search(r"/python3\.(\d+)/", one) for one in directories(machine)]
    return next((f"3{match[1]}" for match in found if match), None)


def environment(machine: Machine) -> str:
    """Whose Python this is: it decides which installer may change what."""
    prefix = machine.variables.get("CONDA_PREFIX", "") if machine.root != Path("/") else sys.prefix
    if prefix.startswith("/") and machine.exists(f"{prefix}/conda-meta"):
        return "conda"
    if machine.root == Path("/") and sys.executable and os.path.realpath(sys.executable).startswith("/nix/store/"):
        return "Nix"
    if machine.variables.get("IN_NIX_SHELL"):
        return "Nix shell"
    return "virtual environment" if machine.root == Path("/") and sys.prefix != sys.base_prefix else "system"


_UNKNOWN = "of unknown version"


@dataclass(frozen=True)
class Torch:
    """torch as its files say, without importing it."""

    version: str
    cuda: str | None
    place: str
    origin: str
    """Whose build: "PyPI", "NVIDIA", "conda" or "another"."""


def torch(machine: Machine) -> Torch | None:
    """The torch that `import torch` would find, whole or not; None where there is none."""
    several = directories(machine)
    for directory in several:
        place = f"{directory}/torch"
        written = machine.text(f"{place}/version.py")
        if written is not None:
            version = re.search(r"__version__\s*(?::[^=]+)?=\s*['\"]([^'\"]+)", written)
            cuda = re.search(r"^cuda\s*(?::[^=]+)?=\s*['\"](\d{1,4}\.\d{1,4}[\d.]{0,9})['\"]", written, re.MULTILINE)
            name = version[1] if version else _UNKNOWN
            return Torch(name, cuda[1] if cuda else None, place, _origin(machine, directory, name))
        if machine.is_file(f"{place}/__init__.py") or machine.is_file(f"{place}.py"):
            return Torch(_UNKNOWN, None, place, "another")
    # A directory without either is imported too, as an empty package: it is what is left of an installation.
    left = (f"{directory}/torch" for directory in several if machine.exists(f"{directory}/torch"))
    return next((Torch(_UNKNOWN, None, place, "another") for place in left), None)


def _origin(machine: Machine, directory: str, version: str) -> str:
    if re.search(r"\+(nv|\w*\.nv)|a0\+\w+", version):
        return "NVIDIA"
    if machine.find(f"{directory}/../../../conda-meta/*torch-*.json"):
        return "conda"
    return "PyPI" if re.fullmatch(r"[\d.]+(\+(cu\d+|cpu))?", version) else "another"


def numpy(machine: Machine) -> str | None:
    """NumPy's version."""
    found = machine.once(packages).get("numpy")
    return found[0].version if found else None
