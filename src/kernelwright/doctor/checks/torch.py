# SPDX-License-Identifier: MIT
"""Does the torch that is installed go with the machine?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Grade, check
from kernelwright.doctor.machine import driver, extensions, jetson, python
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
def torch_for_cpus(machine: Machine) -> str | None:
    torch = python.torch(machine)
    if torch is None or torch.cuda is not None or not _has_gpu(machine):
        return None
    return f"torch {torch.version} in {torch.place} has no CUDA, though this machine has a GPU"


@check("KW-033")
def not_nvidias_torch(machine: Machine) -> str | None:
    """Before JetPack 7 only NVIDIA's own builds of torch see a Jetson's GPU."""
    torch, board, release = python.torch(machine), jetson.model(machine), jetson.l4t(machine)
    if torch is None or board is None or torch.origin == "NVIDIA" or jetson.userland(machine) == "sbsa":
        return None
    return f"torch {torch.version} from {torch.origin} on {board}" + (
        f", L4T {release[0]}.{release[1]}" if release else ""
    )


@check("KW-023", Grade.WARNS)
def numpy_two(machine: Machine) -> str | None:
    torch, numpy = python.torch(machine), python.numpy(machine)
    if torch is None or numpy is None or not numpy.startswith("2."):
        return None
    release = re.match(r"(\d{1,6})\.(\d{1,6})", torch.version)
    old = release is not None and (int(release[1]), int(release[2])) < (2, 3)
    return f"NumPy {numpy} under torch {torch.version}, which was built for NumPy 1" if old else None


def _runs(code: str, capability: int) -> bool:
    """Finished code runs on its own family from its own GPU up, PTX on every later one."""
    match = re.match(r"(sm|compute)_(\d{1,4})", code)
    if match is None:
        return False
    kind, own = match[1], int(match[2])
    return own <= capability and (kind == "compute" or own // 10 == capability // 10)


@check("KW-086", Grade.WARNS)
def gpu_not_in_torch(machine: Machine) -> str | None:
    """From its files, which is quick, and from what it says itself where its import was waited for."""
    gpus, torch = machine.driver.get("gpus", []), python.torch(machine)
    if not gpus or torch is None or torch.cuda is None:
        return None
    codes = machine.once(extensions.codes_of_torch) or machine.torch.get("archs") or []
    for gpu in gpus:
        own = int(gpu.get("capability", 0))
        if codes and not any(_runs(code, own) for code in codes):
            shown = f"{own // 10}.{own % 10}"
            return f"{gpu.get('name')} has compute capability {shown}; torch {torch.version} has {' '.join(codes)}"
    return None


@check("KW-087")
def torch_newer_than_driver(machine: Machine) -> str | None:
    torch, level = python.torch(machine), machine.driver.get("level")
    if torch is None or torch.cuda is None or not level or "." not in torch.cuda:
        return None
    major = int(torch.cuda.split(".")[0])
    if major <= level // 1000:
        return None
    return f"torch {torch.version} is for CUDA {torch.cuda}, the driver's level is {level // 1000}.{level % 1000 // 10}"


@check("KW-088")
def torch_does_not_import(machine: Machine) -> str | None:
    torch = python.torch(machine)
    if torch is None or "error" not in machine.torch or machine.torch.get("hung") or machine.torch.get("unasked"):
        return None  # an import that takes long is none that fails, and one that was not tried neither
    return f"import torch ({torch.version} in {torch.place}): {machine.torch['error']}"


@check("KW-088", Grade.WARNS)
def torch_lacks_a_library(machine: Machine) -> str | None:
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
            return f"torch {torch.version}: {name} is linked to {' '.join(gone)}, which is not here"
    return None


@check("KW-084", Grade.WARNS)
def several_runtimes(machine: Machine) -> str | None:
    if python.torch(machine) is None:
        return None
    loaded = [place for place in machine.torch.get("libraries", []) if "/libcudart" in place]
    return f"import torch loads {' and '.join(loaded)}" if len(loaded) > 1 else None


@check("KW-084", Grade.WARNS)
def runtimes_of_two_releases(machine: Machine) -> str | None:
    """As packages: which of them a process gets depends on what it imports first."""
    found = {
        one[0].version.split(".")[0]: f"{name} {one[0].version}"
        for name, one in machine.once(python.packages).items()
        if re.fullmatch(r"nvidia-cuda-runtime(-cu\d+)?", name)
    }
    return " and ".join(found.values()) + " are installed" if len(found) > 1 else None


@check("KW-015", Grade.WARNS)
def torch_sees_no_gpu(machine: Machine) -> str | None:
    torch, gpus = python.torch(machine), machine.driver.get("gpus")
    if torch is None or torch.cuda is None or not gpus or machine.torch.get("available") is not False:
        return None
    return f"the driver shows {len(gpus)} GPU{'s' if len(gpus) > 1 else ''}, torch {torch.version} sees none"


@check("KW-085", Grade.WARNS)
def bitsandbytes_forced(machine: Machine) -> str | None:
    value = machine.variables.get("BNB_CUDA_VERSION")
    return f"BNB_CUDA_VERSION={value}" if value else None
