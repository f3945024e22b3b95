# SPDX-License-Identifier: MIT
"""Does the torch that is installed go with the machine?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright import _files
from kernelwright.doctor._check import Grade, Seen, check
from kernelwright.doctor.machine import driver, extensions, jetson, python
from kernelwright.doctor.remedies import packages, shell, systems, toolkits
from kernelwright.doctor.xray import _place, symbols

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine


_OF_CUDA = re.compile(
    r"lib(cudart|cublas|cudnn|cufft|curand|cusparse|cusolver|cupti|nccl|nvrtc|nvJitLink|nvshmem|cufile)"
)


def _has_gpu(machine: Machine) -> bool:
    return (
        bool(machine.driver.get("gpus")) or bool(driver.gpus_on_the_bus(machine)) or jetson.model(machine) is not None
    )


@check("KW-021", Grade.WARNS)
def torch_for_cpus(machine: Machine) -> Seen | str | None:
    torch = python.torch(machine)
    if torch is None or torch.cuda is not None or not _has_gpu(machine):
        return None
    evidence = f"torch {torch.version} in {torch.place} has no CUDA, though this machine has a GPU"
    fix = packages.torch(machine, machine.driver.get("level"), older=_is_old(machine))
    return Seen(evidence, *fix) if fix else evidence


def _is_old(machine: Machine) -> bool:
    """A GPU of a generation that the newest builds of torch leave out: those without what Turing brought."""
    codes = _files.read(_files.TARGETS)["codes"].values()
    of_turing = min(int(code["runs_on"][0].replace(".", "")) for code in codes if "ldmatrix" in code["features"])
    return any(0 < int(gpu.get("capability", 0)) < of_turing for gpu in machine.driver.get("gpus", []))


@check("KW-033")
def not_nvidias_torch(machine: Machine) -> Seen | str | None:
    """Before JetPack 7 only NVIDIA's own builds of torch see a Jetson's GPU."""
    torch, board, release = python.torch(machine), jetson.model(machine), jetson.l4t(machine)
    if torch is None or board is None or torch.origin == "NVIDIA" or jetson.userland(machine) == "sbsa":
        return None
    evidence = f"torch {torch.version} from {torch.origin} on {board}"
    fix = packages.torch(machine, None)
    evidence += f", L4T {release[0]}.{release[1]}" if release else ""
    return Seen(evidence, *fix) if fix else evidence


@check("KW-023", Grade.WARNS)
def numpy_two(machine: Machine) -> Seen | None:
    torch, numpy = python.torch(machine), python.numpy(machine)
    if torch is None or numpy is None or not numpy.startswith("2."):
        return None
    release = re.match(r"(\d{1,6})\.(\d{1,6})", torch.version)
    old = release is not None and (int(release[1]), int(release[2])) < (2, 3)
    if not old:
        return None
    evidence = f"NumPy {numpy} under torch {torch.version}, which was built for NumPy 1"
    return Seen(
        evidence, packages.pip(machine, "install", '"numpy<2"'), "Or a newer torch, which is built for NumPy 2."
    )


def _runs(code: str, capability: int) -> bool:
    """Finished code runs on its own family from its own GPU up, PTX on every later one."""
    match = re.match(r"(sm|compute)_(\d{1,4})", code)
    if match is None:
        return False
    kind, own = match[1], int(match[2])
    return own <= capability and (kind == "compute" or own // 10 == capability // 10)


@check("KW-086", Grade.WARNS)
def gpu_not_in_torch(machine: Machine) -> Seen | None:
    """From its files, which is quick, and from what it says itself where its import was waited for."""
    gpus, torch = machine.driver.get("gpus", []), python.torch(machine)
    if not gpus or torch is None or torch.cuda is None:
        return None
    codes = machine.once(extensions.codes_of_torch) or machine.torch.get("archs") or []
    for gpu in gpus:
        own = int(gpu.get("capability", 0))
        if codes and not any(_runs(code, own) for code in codes):
            shown = f"{own // 10}.{own % 10}"
            evidence = f"{gpu.get('name')} has compute capability {shown}; torch {torch.version} has {' '.join(codes)}"
            return Seen(evidence, *_torch_for(machine, shown))
    return None


def _torch_for(machine: Machine, capability: str) -> tuple[str, str]:
    fix = packages.torch(machine, machine.driver.get("level"), older=_is_old(machine))
    level = machine.driver.get("level")
    first = [
        code["toolkits"]["first"]
        for code in _files.read(_files.TARGETS)["codes"].values()
        if code.get("toolkits") and code["runs_on"][0] == capability
    ]
    major = int(first[0].split(".")[0]) if first else 0
    if fix is None or (level and major > level // 1000):
        command, then = systems.driver(machine, toolkits.driver_for(str(major)))
        return command, f"{then} Then a torch of that CUDA release: this GPU is newer than what the driver can run."
    return fix[0], f"{fix[1]} For a GPU that it no longer has either: an older torch, such as the one before the last."


@check("KW-087")
def torch_newer_than_driver(machine: Machine) -> Seen | None:
    torch, level = python.torch(machine), machine.driver.get("level")
    if torch is None or torch.cuda is None or not level or "." not in torch.cuda:
        return None
    major = int(torch.cuda.split(".")[0])
    if major <= level // 1000:
        return None
    evidence = f"torch {torch.version} is for CUDA {torch.cuda}, the driver's level is {driver.shown(level)}"
    fix, then = systems.driver(machine, toolkits.driver_for(str(major)))
    other = packages.torch(machine, level)
    return Seen(evidence, fix, f"{then} Or keep the driver: {other[0]}." if other else then)


@check("KW-088")
def torch_does_not_import(machine: Machine) -> Seen | None:
    torch = python.torch(machine)
    if torch is None or "error" not in machine.torch or machine.torch.get("hung") or machine.torch.get("unasked"):
        return None  # an import that takes long is none that fails, and one that was not tried neither
    evidence = f"import torch ({torch.version} in {torch.place}): {machine.torch['error']}"
    return Seen(evidence, *_same_torch(machine, torch))


def _same_torch(machine: Machine, torch: python.Torch) -> tuple[str, str]:
    """The same release from where it came, with what it requires."""
    if torch.origin == "conda":
        return "conda install -y --force-reinstall -c conda-forge pytorch", "Or a new environment: conda create."
    if torch.origin == "NVIDIA" and jetson.model(machine) is not None:
        fix = packages.torch(machine, machine.driver.get("level"))
        return fix or (packages.pip(machine, "install", "--force-reinstall", "torch"), "")
    known = re.fullmatch(r"([\d.]+)(?:\+(\w+))?", torch.version)
    wanted = f"torch=={known[1]}" if known else "torch"
    index = [f"--index-url {packages.OF_TORCH}/{known[2]}"] if known and known[2] else []
    options = ("install", "--force-reinstall", "--no-cache-dir", wanted, *index)
    return packages.pip(machine, *options), "It brings the libraries that this release was built with."


@check("KW-088", Grade.WARNS)
def torch_lacks_a_library(machine: Machine) -> Seen | None:
    """What its libraries are linked to and no place has in which it looks: told without importing it."""
    torch = python.torch(machine)
    if torch is None or torch.cuda is None:
        return None
    for name in ("libc10_cuda.so", "libtorch_cuda.so", "libtorch_cpu.so"):
        place = f"{torch.place}/lib/{name}"
        wanted = symbols.needed(machine.path(place)) if machine.is_file(place) else ()
        of_cuda = [one for one in wanted if _OF_CUDA.match(one)]
        gone = [one for one in of_cuda if _place.finds(machine, one) is None]
        if gone:
            evidence = f"torch {torch.version}: {name} is linked to {' '.join(gone)}, which is not here"
            return Seen(evidence, *_same_torch(machine, torch))
    return None


@check("KW-084", Grade.WARNS)
def several_runtimes(machine: Machine) -> Seen | str | None:
    torch = python.torch(machine)
    if torch is None:
        return None
    loaded = [place for place in machine.torch.get("libraries", []) if "/libcudart" in place]
    if len(loaded) < 2:
        return None
    evidence, searched = f"import torch loads {' and '.join(loaded)}", driver.search_path(machine)
    led = [place for place in (one.rpartition("/")[0] for one in loaded) if place in searched]
    if led:
        return Seen(evidence, shell.search_without(machine, *led), "torch brings its own.")
    return Seen(evidence, *_same_torch(machine, torch))


@check("KW-084", Grade.WARNS)
def runtimes_of_two_releases(machine: Machine) -> Seen | None:
    """As packages: which of them a process gets depends on what it imports first."""
    found = {
        one[0].version.split(".")[0]: one[0]
        for name, one in machine.once(python.packages).items()
        if re.fullmatch(r"nvidia-cuda-runtime(-cu\d+)?", name)
    }
    if len(found) < 2:
        return None
    torch = python.torch(machine)
    own = torch.cuda.split(".")[0] if torch and torch.cuda else max(found)
    others = sorted(one.name for major, one in found.items() if major != own)
    evidence = " and ".join(f"{one.name} {one.version}" for one in found.values()) + " are installed"
    then = f"What required it has a build for CUDA {own}, as a rule; torch is of that release."
    return Seen(evidence, packages.pip(machine, "uninstall", "-y", *others), then)


@check("KW-015", Grade.WARNS)
def torch_sees_no_gpu(machine: Machine) -> Seen | str | None:
    torch, gpus = python.torch(machine), machine.driver.get("gpus")
    if torch is None or torch.cuda is None or not gpus or machine.torch.get("available") is not False:
        return None
    evidence = f"the driver shows {len(gpus)} GPU{'s' if len(gpus) > 1 else ''}, torch {torch.version} sees none"
    return evidence if "CUDA_VISIBLE_DEVICES" in machine.variables else Seen(evidence, *_same_torch(machine, torch))


@check("KW-085", Grade.WARNS)
def bitsandbytes_forced(machine: Machine) -> str | None:
    value = machine.variables.get("BNB_CUDA_VERSION")
    return f"BNB_CUDA_VERSION={value}" if value else None


@check("KW-129", Grade.WARNS)
def torch_twice(machine: Machine) -> Seen | None:
    """Two releases' metadata in one directory, of which only one can be what lies there."""
    places: dict[str, list[python.Package]] = {}
    for one in machine.once(python.packages).get("torch", []):
        places.setdefault(one.place, []).append(one)
    several = next((found for found in places.values() if len(found) > 1), None)
    torch = python.torch(machine)
    if several is None or torch is None:
        return None
    others = [one for one in several if one.version != torch.version] or several[1:]
    evidence = (
        f"{several[0].place} has the metadata of torch "
        f"{' and '.join(one.version for one in several)}; its files are {torch.version}"
    )
    fix = f"rm -rf {' '.join(shell.quote(one.info) for one in others)}"
    return Seen(
        evidence,
        fix,
        "Then python -m pip install --force-reinstall of the release that is wanted, if files of two are mixed.",
    )
