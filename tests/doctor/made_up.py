# SPDX-License-Identifier: MIT
"""Made-up machines for the doctor: a root directory with the files that matter, and answers of programs and probes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelwright.doctor.machine._machine import Machine
from tests.doctor import cuda_files


@dataclass(frozen=True)
class Made:
    """A description; `at(directory)` makes the machine."""

    files: dict[str, str | bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    says: dict[str, str] = field(default_factory=dict)
    """What a program prints, by its place."""
    driver: dict[str, Any] = field(default_factory=lambda: {"error": "libcuda.so.1: cannot open shared object file"})
    operators: dict[str, Any] = field(default_factory=lambda: {"gpus": [], "untried": "the driver shows no GPU"})
    torch: dict[str, Any] = field(default_factory=dict)
    processor: str = "x86_64"
    kernel: str = "6.8.0-45-generic"
    old: str = ""
    """A file that was written a year before the others."""

    def but(self, files=None, links=None, variables=None, says=None, **others) -> Made:
        """The same with a few things different; a file that is None is taken away."""
        merged = {**self.files, **(files or {})}
        return replace(
            self,
            files={name: content for name, content in merged.items() if content is not None},
            links={**self.links, **(links or {})},
            variables={**self.variables, **(variables or {})},
            says={**self.says, **(says or {})},
            **others,
        )

    def at(self, root: Path, *, write: bool = True) -> Machine:
        """The machine; `write`: its files too, which need that once."""
        if write:
            self._write(root)
        answers = {str(root / place.lstrip("/")): text for place, text in self.says.items()}
        probes = {"driver": self.driver, "operators": self.operators, "torch": self.torch}
        return Machine(
            variables=self.variables,
            root=root,
            processor=self.processor,
            kernel=self.kernel,
            ask=lambda command: answers.get(command[0]),
            probe=probes.__getitem__,
        )

    def _write(self, root: Path) -> None:
        for name, content in self.files.items():
            path = root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            path.chmod(0o755)
        for name, target in self.links.items():
            path = root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        if self.old:
            os.utime(root / self.old.lstrip("/"), (1.7e9, 1.7e9))


def pci(address: str = "0000:01:00.0") -> dict[str, str | bytes]:
    device = f"/sys/bus/pci/devices/{address}"
    return {f"{device}/vendor": "0x10de\n", f"{device}/class": "0x030200\n"}


def module(version: str = "580.65.06") -> dict[str, str | bytes]:
    return {
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Sun Jul 27 07:17:00 UTC 2025\n"
    }


def libcuda(version: str = "580.65.06", directory: str = "/usr/lib/x86_64-linux-gnu") -> dict[str, Any]:
    return {
        "files": {f"{directory}/libcuda.so.{version}": b"\x7fELF"},
        "links": {f"{directory}/libcuda.so.1": f"libcuda.so.{version}"},
    }


def torch(
    version: str, cuda: str | None, directory: str = "/usr/local/lib/python3.11/dist-packages"
) -> dict[str, str | bytes]:
    shown = "None" if cuda is None else repr(cuda)
    return {f"{directory}/torch/version.py": f"__version__ = {version!r}\ncuda: Optional[str] = {shown}\n"}


def package(
    name: str, version: str, directory: str = "/usr/local/lib/python3.11/dist-packages"
) -> dict[str, str | bytes]:
    return {f"{directory}/{name}-{version}.dist-info/INSTALLER": "pip\n"}


SITE = "/usr/local/lib/python3.11/dist-packages"


def extension(name: str, library: cuda_files.Library, file: str = "", version: str = "1.0") -> dict[str, str | bytes]:
    """A package that stands on torch, with one library."""
    inside = file or f"{name}/_C.cpython-311-x86_64-linux-gnu.so"
    info = f"{SITE}/{name}-{version}.dist-info"
    return {
        f"{info}/METADATA": f"Name: {name}\nRequires-Dist: torch>=2.4\n",
        f"{info}/RECORD": f"{name}/__init__.py,sha256=x,10\n{inside},sha256=y,2000\n",
        f"{SITE}/{inside}": library.bytes(),
    }


def program(place: str, says: str) -> dict[str, Any]:
    return {"files": {place: "#!"}, "says": {place: says}}


def nvcc(release: str, place: str = "/usr/local/cuda/bin/nvcc") -> dict[str, Any]:
    return program(place, f"Cuda compilation tools, release {release}, V{release}.1")


def gcc(version: str, place: str = "/usr/bin/g++") -> dict[str, Any]:
    return program(place, version)


H100 = {"name": "NVIDIA H100", "capability": 90, "memory": 80 << 30, "integrated": False}

TOOLS = {
    name: made[name] | other[name] | third[name]
    for made, other, third in [(nvcc("12.8"), gcc("13.3.0"), program("/usr/bin/ninja", "1.12.1"))]
    for name in ("files", "says")
}

EXTENSION = cuda_files.Library(
    fat=cuda_files.container(*cuda_files.sass("80", "90"), cuda_files.ptx("90")),
    needed=("libc.so.6", "libc10.so", "libcudart.so.12"),
    runpath="$ORIGIN/../nvidia/cuda_runtime/lib",
    versions=(("libc.so.6", ("GLIBC_2.17",)),),
    wants=("_ZN3c105ErrorC2ESs",),
)
"""What an extension of torch is like where all is well with it."""

TORCHS_CODE = cuda_files.Library(fat=cuda_files.container(*cuda_files.sass("80", "90")))
TORCHS = cuda_files.Library(wants=("_ZN3c105ErrorC2ESs",))  # names are names, wanted or offered

WORKSTATION = Made(
    files={**pci(), **module(), **libcuda()["files"], "/etc/os-release": 'PRETTY_NAME="Ubuntu 24.04 LTS"\n', "/dev/nvidia0": "",
           "/proc/meminfo": "MemTotal: 65536000 kB\nMemAvailable: 60000000 kB\n", "/proc/cpuinfo": "processor : 0\n" * 8,
           "/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: NVIDIA H100\n",
           "/proc/modules": "nvidia 56823808 2 - Live 0x0\n", "/lib/x86_64-linux-gnu/libc.so.6": b"GNU C Library stable release version 2.39.",
           "/sys/firmware/efi/efivars/SecureBoot-8be4df61": b"\x06\0\0\0\x01", "/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko.zst": "",
           "/usr/local/cuda/lib64/libcudart.so.12": "", "/usr/bin/cc": "#!", **TOOLS["files"],
           **torch("2.8.0+cu128", "12.8"), f"{SITE}/torch/lib/libc10.so": TORCHS.bytes(),
           f"{SITE}/torch/lib/libtorch_cuda.so": TORCHS_CODE.bytes(),
           **package("triton", "3.4.0"), **package("nvidia_cuda_runtime_cu12", "12.8.90"), f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12": "",
           **package("bitsandbytes", "0.48.0"), f"{SITE}/bitsandbytes/libbitsandbytes_cuda128.so": "",
           **extension("scatter", EXTENSION), "/srv/ada/.cache/torch_extensions/py311_cu128/a/a.so": ""},
    links=libcuda()["links"],
    variables={"PATH": "/usr/local/cuda/bin:/usr/bin", "HOME": "/srv/ada"},
    says=TOOLS["says"],
    driver={"library": "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "level": 13000, "init": 0, "gpus": [H100]},
    torch={"version": "2.8.0+cu128", "cuda": "12.8", "available": True, "archs": ["sm_80", "sm_90"], "libraries": []},
)  # fmt: skip
"""All is well here."""

ORIN = Made(
    files={
        "/proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\x00",
        "/proc/device-tree/compatible": "nvidia,p3737-0000+p3701-0000\x00nvidia,tegra234\x00",
        "/etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\n",
        "/usr/lib/aarch64-linux-gnu/nvidia/libnvrm_gpu.so": b"\x7fELF",
        "/var/lib/dpkg/status": "Package: nvidia-jetpack\nStatus: install ok installed\nVersion: 6.2+b77\n\n",
        "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1": b"\x7fELF",
        "/etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=MODE_30W >\n",
        "/var/lib/nvpmodel/status": "pmode:0000 fmode:quiet\n",
        "/etc/pip.conf": "[global]\nconstraint = /etc/pip.constraints\n",
        "/etc/pip.constraints": "torch==2.5.0a0+872d972e41.nv24.08\n",
        **torch("2.5.0a0+872d972e41.nv24.08", "12.6"),
        "/srv/ada/.cache/a": "",
    },
    variables={"HOME": "/srv/ada"},
    driver={"library": "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1", "level": 12060, "init": 0,
            "gpus": [{"name": "Orin", "capability": 87, "memory": 64 << 30, "integrated": True}]},
    torch={"version": "2.5.0a0", "cuda": "12.6", "available": True, "archs": ["sm_87"], "libraries": []},
    processor="aarch64",
    kernel="5.15.148-tegra",
)  # fmt: skip
"""A Jetson under L4T r36 where all is well."""

NO_DRIVER = {"error": "libcuda.so.1: cannot open shared object file"}
