# SPDX-License-Identifier: MIT
"""What ends a fault of a compiled package that is installed, with its own name and release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.machine import python
from kernelwright.doctor.remedies import packages, systems, toolkits

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.doctor.machine._machine import Machine
    from kernelwright.doctor.machine.python import Package

    Remedy = Callable[[Machine, Package, str], "tuple[str, str]"]

# Which package of the system has a library that wheels want and do not bring, where the two names differ.
SYSTEMS = {
    "libGL.so.1": ("libgl1", "mesa-libGL"),
    "libEGL.so.1": ("libegl1", "mesa-libEGL"),
    "libglib-2.0.so.0": ("libglib2.0-0", "glib2"),
    "libgomp.so.1": ("libgomp1", "libgomp"),
    "libnuma.so.1": ("libnuma1", "numactl-libs"),
    "libsndfile.so.1": ("libsndfile1", "libsndfile"),
    "libopenblas.so.0": ("libopenblas0", "openblas"),
    "libmpi.so.40": ("libopenmpi3", "openmpi"),
    "libibverbs.so.1": ("libibverbs1", "libibverbs"),
    "libaio.so.1": ("libaio1", "libaio"),
    "libpng16.so.16": ("libpng16-16", "libpng"),
    "libjpeg.so.8": ("libjpeg-turbo8", "libjpeg-turbo"),
}
# The same of CUDA's libraries, as Python packages: nvidia-<this>-cu<major version of CUDA>.
PACKAGES = {
    "libcudart": "cuda-runtime", "libcublas": "cublas", "libcublasLt": "cublas", "libcudnn": "cudnn",
    "libcufft": "cufft", "libcurand": "curand", "libcusolver": "cusolver", "libcusparse": "cusparse",
    "libcusparseLt": "cusparselt", "libnccl": "nccl", "libnvrtc": "cuda-nvrtc", "libnvJitLink": "nvjitlink",
    "libcupti": "cuda-cupti", "libnvToolsExt": "nvtx", "libcufile": "cufile", "libnvshmem_host": "nvshmem",
}  # fmt: skip


def _missing(evidence: str) -> str:
    """The first library that is named as not being here."""
    match = re.search(r"\b(lib[\w+-]+)\.so[.\d]*", evidence)
    return match[0] if match else ""


def _of_the_system(machine: Machine, _: Package, evidence: str) -> tuple[str, str]:
    library = _missing(evidence)
    then = "On a system without that package: what brings the library by its own name."
    if library in SYSTEMS:
        apt, dnf = SYSTEMS[library]
        return systems.install(machine, apt=apt, dnf=dnf), then
    name = systems.install(machine, apt="apt-file", dnf=f"'*/{library}'")
    if "apt-get" not in name:
        return name, then
    root = "sudo " if "sudo " in name else ""
    found = f"$(apt-file -l search {library} | head -1)"
    return f"{name} && {root}apt-file update && {root}apt-get install -y {found}", then


def _of_cuda(machine: Machine, package: Package, evidence: str) -> tuple[str, str]:
    library, torch = _missing(evidence), python.torch(machine)
    name, major = library.partition(".so")[0], (torch.cuda or "").partition(".")[0] if torch else ""
    behind = re.search(r"\.so\.(\d+)", library)
    wanted = behind[1] if name == "libcudart" and behind else major
    if wanted and major and wanted != major:
        then = (
            f"It is for CUDA {wanted}, torch for CUDA {major}: if its sources know that, they are compiled for it here."
        )
        return packages.built(machine, package.name, package.version), then
    if name in PACKAGES and wanted:
        then = "Its libraries find it if they look beside torch's; else it has to be built again."
        return packages.pip(machine, "install", f"nvidia-{PACKAGES[name]}-cu{wanted}"), then
    return packages.again(machine, package.name, package.version), f"It should bring {library}, or require what does."


def _rebuilt(machine: Machine, package: Package, _: str) -> tuple[str, str]:
    capability = next((int(gpu.get("capability", 0)) for gpu in machine.driver.get("gpus", [])), 0)
    listed = f'TORCH_CUDA_ARCH_LIST="{capability // 10}.{capability % 10}" ' if capability else ""
    return (
        listed + packages.built(machine, package.name, package.version),
        "That builds it for the GPU that is here. Without a compiler: a release whose wheel has it.",
    )


def _driver(machine: Machine, _: Package, evidence: str) -> tuple[str, str]:
    ptx, cuda = re.search(r"only PTX (\d+\.\d+)", evidence), re.search(r"CUDA (\d+(?:\.\d+)?)", evidence)
    release = toolkits.release_of_ptx(ptx[1]) if ptx else cuda[1] if cuda else ""
    fix, then = systems.driver(machine, toolkits.driver_for(release) if release else "")
    return fix, f"{then} Or its build for the driver's CUDA level."


def _again(machine: Machine, package: Package, _: str) -> tuple[str, str]:
    then = "The index has to have its wheel for this machine; if it has none: --no-binary with its name builds it."
    return packages.again(machine, package.name, package.version), then


def _built(machine: Machine, package: Package, _: str) -> tuple[str, str]:
    then = "That builds it on this system, for what it has. Otherwise its wheel for an older one, or a newer system."
    return packages.built(machine, package.name, package.version), then


_ENDS: dict[str, Remedy] = {
    "KW-003": _driver,
    "KW-005": _driver,
    "KW-010": _rebuilt,
    "KW-030": _rebuilt,
    "KW-036": _again,
    "KW-050": _of_cuda,
    "KW-052": _built,
    "KW-053": _driver,
    "KW-054": _of_the_system,
    "KW-083": _again,
}


def ends(machine: Machine, code: str, package: Package, evidence: str) -> tuple[str, str] | None:
    """The command for a package's fault."""
    remedy = _ENDS.get(code)
    return remedy(machine, package, evidence) if remedy else None
