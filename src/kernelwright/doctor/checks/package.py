# SPDX-License-Identifier: MIT
"""Is kernelwright itself whole, and does it serve this machine's GPUs?"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from kernelwright import _environment, _files, _library, errors
from kernelwright.doctor._check import Grade, Seen, check
from kernelwright.doctor.machine import driver, system
from kernelwright.doctor.remedies import packages, systems

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine


def _images() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _files.read(_files.MANIFEST)["images"]
    return found


@check("KW-070")
def files_missing(machine: Machine) -> Seen | None:
    """The package is the same on a made-up machine."""
    try:
        for name in (_files.MANIFEST, _files.SIGNATURES, _files.TARGETS):
            _files.read(name)
        _files.whole_library()
        for image in _images():
            _files.locate(image["path"])
    except errors.PackageIncomplete as error:
        return Seen(str(error), *_installed_again(machine))
    return None


def _installed_again(machine: Machine) -> tuple[str, str]:
    fix = packages.pip(machine, "install", "--force-reinstall", "--no-deps", "--no-cache-dir", "kernelwright")
    return fix, "In a source tree: ./kw build, and that wheel's path in place of the name."


@check("KW-071")
def kernels_changed(machine: Machine) -> Seen | None:
    for image in _images():
        path = _files.locate(image["path"])
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != image["sha256"]:
            evidence = f"{path} has sha256 {found}, {_files.MANIFEST} says {image['sha256']}"
            return Seen(evidence, *_installed_again(machine))
    return None


@check("KW-072")
def library_does_not_load(machine: Machine) -> Seen | None:
    try:
        _library.opened()
    except errors.LibraryMismatch as error:
        return Seen(str(error), *_installed_again(machine))
    except errors.KernelwrightError:
        return None  # of files that are missing KW-070 tells, of variables the operators
    return None


OWN_FILES = (files_missing, kernels_changed, library_does_not_load)


@check("KW-052")
def libc_too_old(machine: Machine) -> Seen | None:
    """The tag of the wheel keeps pip from that; a copied directory or a container's other system does not."""
    name, found = _files.read(_files.MANIFEST)["target"], system.glibc(machine)
    target = _files.read(_files.TARGETS)["targets"].get(name)
    if target is None or found is None or found >= tuple(map(int, target["glibc"].split("."))):
        return None
    evidence = (
        f"this wheel is made for glibc {target['glibc']}; {system.distribution(machine)} has {found[0]}.{found[1]}"
    )
    then = "An image with a newer system is what serves here; the driver stays the host's."
    return Seen(evidence, "docker run --gpus all -it python:slim", then)


@check("KW-073")
def no_glibc(machine: Machine) -> str | None:
    return f"{system.distribution(machine)} has musl for its C library" if system.is_musl(machine) else None


@check("KW-076")
def driver_too_old(machine: Machine) -> Seen | None:
    level, name = machine.driver.get("level"), _files.read(_files.MANIFEST)["toolkit"]
    row = _files.read(_files.TARGETS)["toolkits"][name]["driver"]
    needed = row["cuda"]
    major, minor = map(int, needed.split("."))
    if not level or level >= major * 1000 + minor * 10:
        return None
    evidence = f"the driver's CUDA level is {driver.shown(level)}; {name} needs {needed}"
    return Seen(evidence, *systems.driver(machine, f"{row['linux']} or newer (CUDA {needed})"))


def served(capability: int) -> tuple[str, str] | None:
    """(code, kind) of the image that a GPU would get: its own, its family's, or PTX; None where none runs."""
    codes = _files.read(_files.TARGETS)["codes"]
    there = [codes[name] | {"name": name} for name in {image["code"] for image in _images()} if name in codes]
    shown = f"{capability // 10}.{capability % 10}"
    cubins = [code for code in there if code["kind"] == "cubin" and shown in code["runs_on"]]
    own = [code for code in cubins if code["runs_on"][0] == shown]
    best = max(own or cubins, key=lambda code: (_number(code["runs_on"][0]), code["name"]), default=None)
    if best is None:
        older = [code for code in there if code["kind"] == "ptx" and _number(code["runs_on"][0]) <= capability]
        best = max(older, key=lambda code: _number(code["runs_on"][0]), default=None)
    return (best["name"], best["kind"]) if best else None


def why(capability: int) -> str:
    """The reason for what `served` says, for a person."""
    shown, found = f"{capability // 10}.{capability % 10}", served(capability)
    if found is None:
        return f"none of this wheel's code runs on {shown}"
    name, kind = found
    first = _files.read(_files.TARGETS)["codes"][name]["runs_on"][0]
    if kind == "ptx":
        return f"no finished code of this wheel runs on {shown}; the driver compiles this on first use"
    own = "its own code" if first == shown else f"code for {first}, the nearest of its family in this wheel"
    return own + _where(name)


def _where(code: str) -> str:
    """Whose files it lies in, where those load the same: such images are in a wheel once."""
    rows = [image.get("served_by") for image in _images() if image["code"] == code]
    names = sorted({row["code"] for row in rows if row})
    if not names:
        return ""
    part = "" if all(rows) else f" for {sum(map(bool, rows))} of {len(rows)} operators"
    return f"{part}, equal to that of {' and '.join(names)} and in its files"


def chosen(machine: Machine, capability: int) -> tuple[str | None, str | None, str]:
    """(code, kind, why) of what a GPU gets; an image that the environment asks for is taken or refused, no other."""
    asked = machine.variables.get(_environment.ARCH)
    if not asked:
        return (*(served(capability) or (None, None)), why(capability))
    says, codes = f"{_environment.ARCH}={asked}", _files.read(_files.TARGETS)["codes"]
    if asked not in {image["code"] for image in _images()}:
        return None, None, f"{says}, which this wheel does not have"
    if not _can_run(asked, codes[asked], capability):
        return None, None, f"{says}, which does not run on {capability // 10}.{capability % 10}"
    return asked, codes[asked]["kind"], says


def _can_run(name: str, code: dict[str, Any], capability: int) -> bool:
    """NVIDIA's rule, which is wider than what the table promises: the same family, and no newer than the GPU."""
    native = _number(code["runs_on"][0])
    if code["kind"] == "ptx":
        return native <= capability
    of_family = name[-1].isdigit() and native // 10 == capability // 10 and native <= capability
    return of_family or f"{capability // 10}.{capability % 10}" in code["runs_on"]


def _number(capability: str) -> int:
    major, minor = capability.split(".")
    return int(major) * 10 + int(minor)


@check("KW-074")
def gpu_not_served(machine: Machine) -> Seen | None:
    for gpu in machine.driver.get("gpus", []):
        own = int(gpu.get("capability", 0))
        if served(own) is None:
            have = " ".join(sorted({image["code"] for image in _images()})) or "no kernels"
            evidence = f"{gpu.get('name')} has compute capability {own // 10}.{own % 10}; this wheel has {have}"
            return Seen(evidence, *_build_for(own))
    return None


def _build_for(capability: int) -> tuple[str, str]:
    """A build with a GPU's own code, if the table has one; else how to go on without the kernels."""
    codes, shown = _files.read(_files.TARGETS)["codes"], f"{capability // 10}.{capability % 10}"
    own = [name for name, code in codes.items() if code["kind"] == "cubin" and shown in code["runs_on"]]
    if own:
        best = min(own, key=lambda name: (codes[name]["runs_on"].index(shown), name))
        return (
            f"./kw build -- --archs {best.partition('_')[2]}",
            "In a source tree; it prints the wheel's path, for pip install.",
        )
    then = f"Every operator then runs as plain torch: no build has code for {shown}, by any toolkit that is known."
    return f"export {_environment.DISABLE}=1", then


@check("KW-075", Grade.WARNS)
def gpu_served_by_ptx(machine: Machine) -> Seen | None:
    for gpu in machine.driver.get("gpus", []):
        own = int(gpu.get("capability", 0))
        found = served(own)
        if found and found[1] == "ptx":
            evidence = f"{gpu.get('name')} gets {found[0]}, which the driver compiles on first use"
            fix, then = _build_for(own)
            if fix.startswith("export"):  # a GPU that is newer than the table: PTX is what there is
                return Seen(
                    evidence,
                    "python -m kernelwright --torch",
                    "It compiles the kernels now, once; nothing else has to be done.",
                )
            return Seen(evidence, fix, f"{then} It does not have to be: the kernels work, and are compiled once.")
    return None


@check("KW-077", Grade.WARNS)
def switched(machine: Machine) -> Seen | None:
    names = (_environment.DISABLE, _environment.KERNELS, _environment.ARCH)
    found = [name for name in names if machine.variables.get(name)]
    if not found:
        return None
    evidence = ", ".join(f"{name}={machine.variables[name]}" for name in found)
    return Seen(evidence, f"unset {' '.join(found)}", "Unless that is on purpose.")


@check("KW-078")
def arch_that_cannot_be(machine: Machine) -> Seen | None:
    """The library refuses every operator then: nothing else is taken in place of what was asked for."""
    asked, there = machine.variables.get(_environment.ARCH, "").strip(), {image["code"] for image in _images()}
    if not asked:
        return None
    fix = f"unset {_environment.ARCH}"
    if asked not in there:
        evidence = f"{_environment.ARCH}={asked[:80]}: this wheel has {' '.join(sorted(there)) or 'no kernels'}"
        return Seen(evidence, fix, "Or one of those names; ./kw build -- --archs makes a wheel with others.")
    for gpu in machine.driver.get("gpus", []):
        own = int(gpu.get("capability", 0))
        image, _, why_not = chosen(machine, own)
        if image is None:
            best = served(own)
            other = f"It then gets {best[0]}." if best else "This wheel has nothing else for it either (KW-074)."
            return Seen(f"{gpu.get('name')}: {why_not}", fix, other)
    return None
