# SPDX-License-Identifier: MIT
"""What a set of requirements means, package by package, file by file: asked of pip, for Pythons and machines not here.

pip evaluates a dependency's markers for the interpreter that runs it, whatever --python-version says, so the walk
along the dependencies is done here, and pip is asked for one version of each package at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernelwright_toolchain.errors import ProvisionError, ToolMissing
from kernelwright_toolchain.locking.wanted import Wanted
from kernelwright_toolchain.providers.pip import run_pip, sha256_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement

Place = tuple[str, str]  # a Python release and a machine


@dataclass
class Package:
    """One package of a lock: one version everywhere, and the files of each place that needs it."""

    name: str
    version: str
    hashes: dict[Place, str] = field(default_factory=dict)


def _parse(text: str) -> Requirement:
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:
        raise ToolMissing("making locks needs the module `packaging`; it is there under ./kw") from None
    return Requirement(text)


def canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _environment(place: Place) -> dict[str, str]:
    python, machine = place
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "extra": "",
    }


def holds(marker: str, place: Place) -> bool:
    """Whether an environment marker is true there."""
    need = _parse(f"any ; {marker}")
    return bool(need.marker and need.marker.evaluate(_environment(place)))


def platforms(machine: str, floor: tuple[int, int]) -> list[str]:
    """Every wheel tag that a machine with this C library takes, newest first."""
    tags = [f"manylinux_{floor[0]}_{minor}_{machine}" for minor in range(floor[1], 4, -1)]
    return [*tags, *(f"{old}_{machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1", "linux"))]


def ask(wanted: Wanted, place: Place, requirements: Iterable[str]) -> list[dict[str, Any]]:
    """What pip would install for these requirements there, without what they depend on."""
    python, machine = place
    tags = [f"--platform={tag}" for tag in platforms(machine, wanted.glibc[machine])]
    abis = [f"--abi={abi}" for abi in (f"cp{python.replace('.', '')}", "abi3", "none")]
    asking = ["install", "--dry-run", "--quiet", "--report=-", "--ignore-installed", "--no-deps", "--only-binary=:all:"]
    there = ["--target=unused", "--implementation=cp", f"--python-version={python}", *abis, *tags]
    report = run_pip(
        [*asking, *there, *sorted(requirements)], f"{wanted.path}: resolving for Python {python} on {machine}"
    )
    found: list[dict[str, Any]] = json.loads(report)["install"]
    return found


def _needs(item: dict[str, Any], place: Place, extras: set[str]) -> list[Requirement]:
    """What one package depends on in that place."""
    found = []
    for text in item["metadata"].get("requires_dist", ()):
        need = _parse(text)
        environment = _environment(place)
        if need.marker is None or any(need.marker.evaluate({**environment, "extra": e}) for e in (*extras, "")):
            found.append(need)
    return found


def _walk(wanted: Wanted, place: Place, pins: dict[str, str]) -> list[dict[str, Any]]:
    """Everything that place needs; asks again until no package adds a requirement."""
    asked: dict[str, set[str]] = {}
    extras: dict[str, set[str]] = {}

    def add(need: Requirement) -> None:
        name = canonical(need.name)
        asked.setdefault(name, {f"=={pins[name]}"} if name in pins else set()).update(str(s) for s in need.specifier)
        extras.setdefault(name, set()).update(need.extras)

    for text in wanted.requirements:
        need = _parse(text)
        if need.marker is None or need.marker.evaluate(_environment(place)):
            add(need)
    while True:
        before = {name: set(specifiers) for name, specifiers in asked.items()}
        items = ask(wanted, place, (name + ",".join(sorted(s)) for name, s in asked.items()))
        if not wanted.closure:
            return items
        for item in items:
            for need in _needs(item, place, extras[canonical(item["metadata"]["name"])]):
                add(need)
        if asked == before:
            return items


def resolve(wanted: Wanted) -> list[Package]:
    """The packages of one lock, by name; the oldest Python chooses the versions, so that all Pythons share them."""
    packages: dict[str, Package] = {}
    for python in wanted.pythons:
        for machine in wanted.machines:
            place = (python, machine)
            for item in _walk(wanted, place, {name: p.version for name, p in packages.items()}):
                name, version = canonical(item["metadata"]["name"]), item["metadata"]["version"]
                digest = sha256_of(item)
                if not digest:
                    raise ProvisionError(f"{wanted.path}: the index gives no sha256 for {name} {version}")
                packages.setdefault(name, Package(name, version)).hashes[place] = digest
    return [packages[name] for name in sorted(packages)]
