# SPDX-License-Identifier: MIT
"""Is there a driver, is it one, does it start?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Grade, Seen, check
from kernelwright.doctor.machine import driver, system
from kernelwright.doctor.remedies import containers, shell, systems

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_STUB = 34  # CUDA_ERROR_STUB_LIBRARY
_NOT_READY = 802  # CUDA_ERROR_SYSTEM_NOT_READY: what joins the GPUs of one machine is not up
_MISMATCH = (803, 804)  # CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
_OF_THE_DRIVER = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")


def _reachable(machine: Machine) -> bool:
    return "error" not in machine.driver


@check("KW-001")
def no_driver(machine: Machine) -> Seen | None:
    gpus = driver.gpus_on_the_bus(machine)
    if not gpus or driver.libraries(machine) or _reachable(machine) or system.container(machine):
        return None
    several = "s" if len(gpus) > 1 else ""
    evidence = f"{len(gpus)} NVIDIA GPU{several} on the PCI bus ({', '.join(gpus)}), but no libcuda.so.1"
    return Seen(evidence, *systems.driver(machine))


@check("KW-002")
def container_without_gpu(machine: Machine) -> Seen | None:
    kind = system.container(machine)
    if not kind or not driver.kernel_module(machine) or _reachable(machine):
        return None
    if machine.find("/dev/nvidia[0-9]*") and driver.libraries(machine):
        return None
    evidence = (
        f"a {kind} container on a host with driver {driver.kernel_module(machine)}, without its devices or libraries"
    )
    return Seen(evidence, *containers.with_gpu(machine))


@check("KW-004")
def two_versions(machine: Machine) -> Seen | None:
    module = driver.kernel_module(machine)
    libraries = driver.libraries(machine)
    first = driver.of_library(machine, libraries[0]) if libraries else None
    if machine.driver.get("init") in _MISMATCH and libraries and "/compat/" in machine.resolved(libraries[0]):
        return _of_compat(machine, libraries)
    if not module or not first or first == module or "/compat/" in libraries[0]:
        return Seen(_refused(machine), *_both_anew(machine)) if machine.driver.get("init") in _MISMATCH else None
    evidence = f"the kernel module is {module}, but {libraries[0]} is of {first}"
    right = next((place for place in libraries if driver.of_library(machine, place) == module), None)
    if right is not None:
        then = f"Then remove what brought {libraries[0]}: the driver's packages belong on the host alone."
        return Seen(evidence, shell.search_first(machine, right.rpartition("/")[0]), then)
    return Seen(evidence, *_both_anew(machine))


def _both_anew(machine: Machine) -> tuple[str, str]:
    if system.container(machine):
        return containers.with_gpu(machine)
    return f"{shell.sudo(machine)}reboot", "The kernel module of the libraries that are installed is loaded then."


def _of_compat(machine: Machine, libraries: list[str]) -> Seen:
    """A compat library serves data center GPUs, and kernel modules of some releases: this is neither."""
    place = libraries[0].rpartition("/")[0]
    then = (
        "It is for data center GPUs alone; the package cuda-compat-* brings it, and sudo "
        "ldconfig forgets it afterwards."
    )
    if place in driver.search_path(machine):
        return Seen(_refused(machine), shell.search_without(machine, place), then)
    real = next((one for one in libraries if "/compat/" not in machine.resolved(one)), "")
    fix = (
        shell.search_first(machine, real.rpartition("/")[0])
        if real
        else f"{shell.sudo(machine)}apt-get remove -y 'cuda-compat-*'"
    )
    return Seen(_refused(machine), fix, then)


@check("KW-006")
def stub(machine: Machine) -> Seen | None:
    places = driver.libraries(machine)
    if places and "/stubs" in machine.resolved(places[0]):
        return _seen_stub(machine, places[0], f"{places[0]} comes first, and is the toolkit's stub")
    if machine.driver.get("init") == _STUB:
        place = str(machine.driver.get("library"))
        return _seen_stub(machine, place, f"cuInit gives {_STUB}: {place} says itself that it is a stub")
    return None  # a directory of stubs that holds none of that name, or comes later, harms nobody


def _seen_stub(machine: Machine, place: str, evidence: str) -> Seen:
    directory = place.rpartition("/")[0]
    if directory in driver.search_path(machine):
        return Seen(evidence, shell.search_without(machine, directory))
    named = f"grep -lrxF {shell.quote(directory)} /etc/ld.so.conf.d"
    real = next(
        (one for one in driver.libraries(machine) if "/stubs" not in machine.resolved(one) and one != place), None
    )
    if real is not None:
        then = f"If the loader's configuration names {directory} ({named}), take it out of there and run ldconfig."
        return Seen(evidence, shell.search_first(machine, real.rpartition("/")[0]), then)
    return Seen(evidence, *systems.driver(machine))


@check("KW-007")
def nix_without_driver(machine: Machine) -> Seen | None:
    if (
        "IN_NIX_SHELL" not in machine.variables
        or _reachable(machine)
        or machine.exists("/run/opengl-driver/lib/libcuda.so.1")
    ):
        return None
    there = [place for place in driver.libraries(machine) if not place.startswith("/nix/")]
    if not there:
        return None
    directory = there[0].rpartition("/")[0]
    places = [f"{directory}/{name}.so.1" for name in _OF_THE_DRIVER]
    names = " ".join(place for place in places if machine.exists(place))
    return Seen(
        f"a Nix shell; the host's driver is {there[0]}, where programs of the Nix store do not look",
        f"mkdir -p ~/.cache/host-driver && ln -sf {names} ~/.cache/host-driver/ && "
        'export LD_LIBRARY_PATH="$HOME/.cache/host-driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"',
        "The host's whole directory would bring its C library too. nix develop of this project does so by itself.",
    )


@check("KW-008")
def wsl(machine: Machine) -> Seen | str | None:
    if not system.is_wsl(machine) or _reachable(machine):
        return None
    if not machine.exists("/usr/lib/wsl/lib/libcuda.so.1"):
        evidence = "WSL without /usr/lib/wsl/lib/libcuda.so.1: Windows has no NVIDIA driver with WSL support"
        return Seen(evidence, *systems.driver(machine))
    return "WSL: /usr/lib/wsl/lib/libcuda.so.1 is there, but the loader does not find it"


@check("KW-009")
def does_not_start(machine: Machine) -> Seen | str | None:
    told = machine.driver
    if told.get("hung") or told.get("crashed"):
        return f"a process that opened libcuda.so.1: {told['error']}"
    status = told.get("init", 0)
    if status in {
        0,
        100,
        _STUB,
        _NOT_READY,
        *_MISMATCH,
    }:  # 100: no GPU, which is nobody's fault; the others have their own
        return None
    return _refused(machine)


def _refused(machine: Machine) -> str:
    """What cuInit gave, and of which versions the two are that have to go together."""
    told, module = machine.driver, driver.kernel_module(machine) or "not loaded"
    library = str(told.get("library"))
    version = driver.of_library(machine, library) if library.startswith("/") else None
    return (
        f"cuInit gives {told.get('init')} (library "
        f"{library}{f' of {version}' if version else ''}, kernel module {module})"
    )


@check("KW-123")
def fabric_not_ready(machine: Machine) -> Seen | None:
    if machine.driver.get("init", 0) != _NOT_READY:
        return None
    root, then = shell.sudo(machine), "On the host, if this is a container; it has to be of the driver's own version."
    fix = f"{root}systemctl enable --now nvidia-fabricmanager && {root}systemctl restart nvidia-fabricmanager"
    return Seen(_refused(machine), fix, then)


@check("KW-014")
def device_files(machine: Machine) -> Seen | None:
    for place in [*machine.find("/dev/nvidia[0-9]*"), *machine.find("/dev/nvmap")]:
        if not machine.may(place, os.R_OK | os.W_OK):
            return Seen(f"{place} may not be opened by this user", *_opened(machine, place))
    return None


def _opened(machine: Machine, place: str) -> tuple[str, str]:
    """The group that may open it, if there is one that is not root's; else everybody, as is the driver's default."""
    root, group = shell.sudo(machine), machine.group_that_may(place)
    if group is not None:
        return f'{root}usermod -aG {group} "$(id -un)"', "Then log in again."
    return f"{root}chmod a+rw {place}", "It holds until the next start; in a container start it with the GPU (KW-002)."


@check("KW-080", Grade.WARNS)
def several_drivers(machine: Machine) -> Seen | None:
    versions = {
        driver.of_library(machine, place): place for place in driver.libraries(machine) if "/compat/" not in place
    }
    versions.pop(None, None)
    if len(versions) < 2:
        return None
    evidence = f"libcuda.so.1 of {' and '.join(f'{v} ({p})' for v, p in versions.items())}"
    right = versions.get(driver.kernel_module(machine)) or next(iter(versions.values()))
    then = "Then remove the packages that brought the others."
    return Seen(evidence, shell.search_first(machine, right.rpartition("/")[0]), then)


@check("KW-015")
def no_gpu_shown(machine: Machine) -> Seen | str | None:
    """The kernel module has GPUs and CUDA shows this process none."""
    there = [place.rpartition("/")[2] for place in machine.find("/proc/driver/nvidia/gpus/*")]
    told = machine.driver
    if not there or not _reachable(machine) or told.get("gpus") or told.get("init", 0) not in {0, 100}:
        return None
    if machine.variables.get("CUDA_VISIBLE_DEVICES", "0").strip() in {"", "-1"}:
        return None  # somebody wants it so: KW-012 says it
    evidence = f"the driver has {len(there)} GPU{'s' if len(there) > 1 else ''} ({', '.join(there)}), CUDA shows none"
    if system.container(machine):
        return Seen(evidence, *containers.with_gpu(machine))
    if "CUDA_VISIBLE_DEVICES" in machine.variables:
        return evidence
    return Seen(
        evidence,
        f"{shell.sudo(machine)}nvidia-modprobe -u -c=0",
        "Under Slurm ask for --gres=gpu:1. If it stays, reboot.",
    )
