# SPDX-License-Identifier: MIT
"""Does what is installed go with the board?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Grade, Seen, check
from kernelwright.doctor.machine import driver, jetson, python, system
from kernelwright.doctor.remedies import containers, packages, shell

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine


def _server_libraries(machine: Machine) -> str | None:
    """A pip package of NVIDIA's CUDA libraries: those are for servers."""
    found = [
        name for name in machine.once(python.packages) if name.startswith(("nvidia-cuda-runtime", "nvidia-cublas"))
    ]
    return found[0] if found else None


@check("KW-030")
def server_build_on_tegra(machine: Machine) -> Seen | None:
    libraries = _server_libraries(machine)
    if jetson.userland(machine) != "tegra" or libraries is None:
        return None
    evidence = f"{jetson.model(machine) or 'this board'} has the Tegra userland; {libraries} is for servers"
    several = sorted(name for name in machine.once(python.packages) if re.match(r"nvidia-.*-cu\d+$|nvidia-cu", name))
    then = "What required them has to be a build for Jetson, or one without a CUDA runtime; L4T has these libraries."
    return Seen(evidence, packages.pip(machine, "uninstall", "-y", *several), then)


@check("KW-032", Grade.WARNS)
def tegra_build_on_server_stack(machine: Machine) -> Seen | None:
    torch = python.torch(machine)
    if jetson.model(machine) is None or jetson.userland(machine) != "sbsa" or torch is None or torch.origin != "NVIDIA":
        return None
    release = jetson.l4t(machine)
    if release is None or release[0] < jetson.FIRST_SERVER_STACK:
        return None
    evidence = (
        f"L4T {release[0]}.{release[1]} drives the GPU as servers do; torch {torch.version} looks like JetPack 6's"
    )
    fix = packages.torch(machine, packages.level_of_servers(machine))
    return Seen(evidence, *fix) if fix else None


@check("KW-035")
def board_without_driver_library(machine: Machine) -> Seen | None:
    release = jetson.l4t(machine)
    if jetson.model(machine) is None or driver.libraries(machine):
        return None
    kind, shown = system.container(machine), f"L4T {release[0]}.{release[1]}" if release else "no known L4T"
    where = f"in this {kind} container" if kind else "on it"
    evidence = f"{jetson.model(machine)}, {shown}: there is no libcuda.so.1 {where}"
    if kind:
        return Seen(evidence, *containers.with_gpu(machine))
    root = shell.sudo(machine)
    fix = f"{root}apt-get update && {root}apt-get install -y --reinstall nvidia-l4t-core nvidia-l4t-cuda"
    return Seen(evidence, fix, "The rest of JetPack is in the package nvidia-jetpack.")


@check("KW-037", Grade.WARNS)
def torch_may_be_replaced(machine: Machine) -> Seen | None:
    """By any package that requires torch: the index has a higher version, or one with the same name for servers."""
    torch = python.torch(machine)
    if jetson.model(machine) is None or torch is None or torch.origin != "NVIDIA":
        return None
    named = [machine.variables.get(name, "") for name in ("PIP_CONSTRAINT", "UV_CONSTRAINT")]
    places = [*named, *_constraints_of_pip(machine)]
    if any(
        re.search(r"^torch\b", machine.text(place) or "", re.MULTILINE | re.IGNORECASE) for place in places if place
    ):
        return None
    told = packages.pip(machine, "config", "set", "global.constraint", "~/jetson.txt")
    if packages.is_uvs(machine):  # which has no such setting but the variable
        told = "export UV_CONSTRAINT=~/jetson.txt"
    return Seen(
        f"torch {torch.version} is NVIDIA's build for this board, and no constraint file of pip holds it",
        f"printf '%s\\n' torch=={shell.quote(torch.version)} >> ~/jetson.txt && {told}",
        "A package that needs another torch is then refused, and installed by pip install --no-deps.",
    )


def _constraints_of_pip(machine: Machine) -> list[str]:
    """The constraint files that pip's configuration names."""
    home = machine.variables.get("HOME", "")
    written = [
        machine.text(place) or ""
        for place in ("/etc/pip.conf", f"{home}/.config/pip/pip.conf", f"{home}/.pip/pip.conf")
    ]
    return [match[1] for text in written for match in re.finditer(r"^constraint\s*=\s*(\S+)", text, re.MULTILINE)]


@check("KW-038", Grade.WARNS)
def power_mode(machine: Machine) -> Seen | None:
    """The mode in use by its number; nvpmodel's configuration has the names. MAXN is what all figures are given for."""
    used = re.search(r"pmode:0*(\d+)", machine.text("/var/lib/nvpmodel/status") or "")
    names = dict(re.findall(r"POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+)", machine.text("/etc/nvpmodel.conf") or ""))
    if used is None or jetson.model(machine) is None or not names:
        return None
    name = str(names.get(used[1], used[1]))
    best = next((number for number, one in names.items() if one.startswith("MAXN")), None)
    if best is None or name.startswith("MAXN"):
        return None
    evidence = f"power mode {used[1]} ({name}) is in use; {names[best]} is mode {best}"
    root = shell.sudo(machine)
    then = "The supply has to be made for it; going back takes the same command with the number of the mode in use."
    return Seen(evidence, f"{root}nvpmodel -m {best} && {root}jetson_clocks", then)
