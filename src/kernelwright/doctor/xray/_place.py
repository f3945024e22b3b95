# SPDX-License-Identifier: MIT
"""Where a file is to run: this machine, or a target of the table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright import _files
from kernelwright.doctor.machine import driver, jetson, python, system
from kernelwright.doctor.xray._serve import Capability, capability

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine


class UnknownTarget(ValueError):
    """The table has no such target."""


@dataclass(frozen=True)
class Gpu:
    name: str
    capability: Capability


@dataclass(frozen=True)
class Torch:
    """A torch that is asked about: its release as far as it is given, the major version and the release of its CUDA."""

    release: tuple[int, ...]
    cuda: int | None
    text: str
    release_of_cuda: tuple[int, int] | None = None


@dataclass(frozen=True)
class Place:
    """What is known of it; None for what is not."""

    name: str
    machine: str
    """The processor; "" where any will do."""
    gpus: tuple[Gpu, ...]
    glibc: Capability | None = None
    oldest_glibc: Capability | None = None
    """Of a target whose machines differ: what every one of them has at least."""
    level: tuple[int, int] | None = None
    """The driver's CUDA level."""
    userland: str | None = None
    here: Machine | None = None
    """This machine, where files can be looked for."""
    torch: Torch | None = None


@cache
def table() -> dict[str, Any]:
    return _files.read(_files.TARGETS)


def this_machine(machine: Machine) -> Place:
    level = machine.driver.get("level")
    gpus = machine.driver.get("gpus", [])
    return Place(
        name="this machine",
        machine=machine.processor,
        gpus=tuple(Gpu(str(gpu.get("name")), divmod(int(gpu.get("capability", 0)), 10)) for gpu in gpus),
        glibc=system.glibc(machine),
        level=(level // 1000, level % 1000 // 10) if level else None,
        userland=jetson.userland(machine),
        here=machine,
    )


def target(name: str) -> Place:
    """A row of the table in the wheel: its GPUs are those of its default codes."""
    found = table()
    if name not in found.get("targets", {}):
        raise UnknownTarget(f"there is no target {name!r}; there are {', '.join(found.get('targets', {}))}")
    row, codes = found["targets"][name], found["codes"]
    own = [codes[code] for code in row["codes"] if codes[code]["kind"] == "cubin"]
    gpus = {
        capability(code["runs_on"][0]): Gpu(", ".join(code["boards"]), capability(code["runs_on"][0])) for code in own
    }
    fixed = row.get("system") or {}
    return Place(
        name=name,
        machine=row["machine"],
        gpus=tuple(gpus.values()),
        glibc=capability(fixed["glibc"]) if fixed else None,
        oldest_glibc=None if fixed else capability(row["glibc"]),
        level=capability(fixed["cuda"]) if fixed else None,
        userland=fixed.get("userland"),
    )


# Where the loader looks without being told.
_USUAL = ("/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib", "/usr/local/lib")


def _configured(machine: Machine) -> list[str]:
    """The directories that the loader's configuration names."""
    files = ["/etc/ld.so.conf", *machine.find("/etc/ld.so.conf.d/*.conf")]
    lines = [line.strip() for name in files for line in (machine.text(name) or "").splitlines()]
    return [line for line in lines if re.fullmatch(r"/[\w./+-]+", line)]


def finds(machine: Machine, library: str) -> str | None:
    """The directory in which this machine has a library: the loader's, or a Python package's that is imported first."""
    directories = [
        *driver.search_path(machine),
        *_USUAL,
        *(f"{one}/nvidia/*/lib" for one in python.directories(machine)),
        *(f"{one}/torch/lib" for one in python.directories(machine)),
        *(f"{one}/../.." for one in python.directories(machine)),  # an environment's own, such as conda's
        *machine.once(_configured),
    ]
    if machine.variables.get("CONDA_PREFIX"):
        directories.append(machine.variables["CONDA_PREFIX"] + "/lib")
    if not re.fullmatch(r"[\w.+-]+", library):  # a name that a pattern could be in
        return None
    for directory in directories:
        found = machine.find(f"{directory}/{library}")
        if found:
            return found[0].rpartition("/")[0]
    return None
