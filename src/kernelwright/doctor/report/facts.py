# SPDX-License-Identifier: MIT
"""Everything the report says, as plain data. Each part stands alone: one that fails says so in its place."""

from __future__ import annotations

import contextlib
import platform
import sys
from typing import TYPE_CHECKING, Any

from kernelwright import _environment, _files, _library
from kernelwright.doctor._check import Grade
from kernelwright.doctor._rank import ranked, unlooked
from kernelwright.doctor._told import as_data
from kernelwright.doctor.checks import all_checks, examine, package
from kernelwright.doctor.machine import driver, extensions, jetson, libraries, python, system, toolkit
from kernelwright.doctor.operators._all import FAILED, on_gpus, runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.doctor._check import Check
    from kernelwright.doctor.machine._machine import Machine

SCHEMA = 1


def _build(_: Machine) -> dict[str, Any]:
    manifest = _files.read(_files.MANIFEST)
    keys = ("version", "target", "toolkit", "provider", "debug", "compiler")
    images = manifest["images"]
    served = [(image["code"], image["served_by"]["code"], image["op"]) for image in images if image.get("served_by")]
    return {key: manifest[key] for key in keys} | {
        "images": sorted({image["code"] for image in images}),
        "served_by": [{"code": code, "by": by, "op": op} for code, by, op in served],
    }


def _library_facts(_: Machine) -> dict[str, Any]:
    library = _library.opened()
    return {
        "path": str(library.path),
        "version": library.text("kw_version"),
        "isa": library.text("kw_cpu_isa"),
        "threads": library.functions["kw_num_threads"](),
    }


def _system(machine: Machine) -> dict[str, Any]:
    glibc, memory = system.glibc(machine), system.memory(machine)
    return {
        "processor": machine.processor,
        "kernel": machine.kernel,
        "distribution": system.distribution(machine),
        "glibc": ".".join(map(str, glibc)) if glibc else None,
        "container": system.container(machine),
        "wsl": system.is_wsl(machine),
        "processors": system.processors(machine),
        "cpu": system.cpu(machine),
        "memory": memory[0] if memory else None,
    }


def _jetson(machine: Machine) -> dict[str, Any] | None:
    board = jetson.model(machine)
    if board is None:
        return None
    release = jetson.l4t(machine)
    return {
        "board": board,
        "l4t": f"{release[0]}.{release[1]}" if release else None,
        "jetpack": jetson.jetpack(machine),
        "userland": jetson.userland(machine),
    }


def _driver(machine: Machine) -> dict[str, Any]:
    return {
        "kernel_module": driver.kernel_module(machine),
        "libraries": driver.libraries(machine),
        "on_the_bus": driver.gpus_on_the_bus(machine),
        **{key: value for key, value in machine.driver.items() if key != "gpus"},
    }


def _gpus(machine: Machine) -> list[dict[str, Any]]:
    def served(gpu: dict[str, Any]) -> dict[str, Any]:
        image, kind, why = package.chosen(machine, int(gpu.get("capability", 0)))
        return {"image": image, "kind": kind, "why": why}

    return [{**gpu, **served(gpu)} for gpu in machine.driver.get("gpus", [])]


_OF_THE_IMPORT = ("available", "archs", "error")


def _torch(machine: Machine) -> dict[str, Any] | None:
    found = python.torch(machine)
    if found is None:
        return None
    imported: dict[str, Any] = {key: value for key, value in machine.torch.items() if key in _OF_THE_IMPORT}
    if machine.torch.get("hung"):
        imported = {"waited_for": False}
    if machine.torch.get("unasked"):
        imported = {"untried": machine.torch.get("error")}
    facts = {"version": found.version, "cuda": found.cuda, "origin": found.origin, "place": found.place}
    of_files = {
        "codes": list(machine.once(extensions.codes_of_torch)),
        "cxx11_abi": machine.once(extensions.abi_of_torch),
    }
    return facts | of_files | {"import": imported}


def _libraries(machine: Machine) -> dict[str, str | None]:
    return {name: libraries.release(machine, name) for name in ("cudnn", "nccl")}


def _packages(machine: Machine) -> list[dict[str, str]]:
    """Those that such faults are about: what stands on torch, what has NVIDIA's libraries, what compiles kernels."""
    known = {each.name: each for each in extensions.packages(machine)}
    for name, several in machine.once(python.packages).items():
        if name.startswith(("nvidia-", "cuda-", "cupy", "jax", "tensorrt", "onnxruntime")) or name in {
            "torch",
            "triton",
        }:
            known[name] = several[0]
    return [
        {"name": name, "version": each.version, "installer": each.installer} for name, each in sorted(known.items())
    ]


def _toolkits(machine: Machine) -> list[dict[str, Any]]:
    def release(place: str) -> str | None:
        found = toolkit.release_of(machine, place)
        return f"{found[0]}.{found[1]}" if found else None

    return [{"nvcc": place, "release": release(place)} for place in toolkit.nvccs(machine)]


def _compiler(machine: Machine) -> dict[str, Any] | None:
    found = toolkit.host_compiler(machine)
    return {"place": found[0], "release": found[1]} if found else None


def _python(machine: Machine) -> dict[str, Any]:
    return {
        "version": platform.python_version(),
        "executable": sys.executable,
        "environment": python.environment(machine),
        "numpy": python.numpy(machine),
    }


def _variables(machine: Machine) -> dict[str, str]:
    """Those of ours, and those of others that decide which GPU code and which compiler is used."""
    of_others = ("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "CUDAHOSTCXX", "CONDA_PREFIX",
                 "IN_NIX_SHELL", "BNB_CUDA_VERSION", "MAX_JOBS")  # fmt: skip
    names = (*_environment.MEANINGS, *of_others)
    return {name: machine.variables[name] for name in names if name in machine.variables}


_PARTS: dict[str, Callable[[Machine], Any]] = {
    "build": _build,
    "library": _library_facts,
    "system": _system,
    "jetson": _jetson,
    "driver": _driver,
    "gpus": _gpus,
    "python": _python,
    "torch": _torch,
    "libraries": _libraries,
    "packages": _packages,
    "toolkits": _toolkits,
    "host_compiler": _compiler,
    "variables": _variables,
}

_OWN = ("build", "library")


def _part(make: Callable[[Machine], Any], machine: Machine) -> Any:
    try:
        return make(machine)
    except Exception as error:  # noqa: BLE001 - the report must reach its end, whatever is broken
        return {"error": f"{type(error).__name__}: {error}"}


def _beside(machine: Machine) -> None:
    """What takes time and waits for nobody is looked at while torch is imported in its child process."""
    for look in (extensions.extensions, extensions.codes_of_torch, python.packages):
        with contextlib.suppress(Exception):  # who needs it looks again, and says what is wrong in its place
            machine.once(look)


def _on_cpu() -> Any:
    from kernelwright.doctor.operators._run import (
        on_cpu,
    )  # needs the operators, which are not everywhere with the doctor

    return on_cpu()


def _checks(*, only_self: bool, only_machine: bool) -> tuple[Check, ...]:
    if only_self:
        return package.OWN_FILES
    own = {id(value) for value in vars(package).values()}
    return tuple(one for one in all_checks() if not only_machine or id(one) not in own)


def gather(machine: Machine, *, only_self: bool = False, only_machine: bool = False) -> dict[str, Any]:
    """The whole report as data; `only_self`: without what depends on the machine, such as its driver or torch.

    `only_machine`: without this installation, for those who have none.
    """
    told: dict[str, Any] = {"schema": SCHEMA}
    ran = () if only_machine else _on_cpu()  # before the parts: some of those wait for a child process
    if not only_self:
        _beside(machine)
    told |= {
        name: _part(make, machine)
        for name, make in _PARTS.items()
        if (not only_machine if name in _OWN else not only_self)
    }
    if not only_machine:
        told["operators"] = ran
    if not only_self and not only_machine:
        told["operators_on_gpus"] = _part(on_gpus, machine)
    found = examine(machine, _checks(only_self=only_self, only_machine=only_machine))
    told["findings"] = [as_data(one) for one in ranked(found)]
    told["unlooked"] = list(unlooked(found))
    failed = any(one["grade"] == Grade.FAILS.value for one in told["findings"])
    broken = any(state == FAILED for _, state, _ in runs(told))
    told["success"] = not (failed or broken)
    return told
