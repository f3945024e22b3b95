# SPDX-License-Identifier: MIT
"""Extensions of torch, compiled with the headers of a torch for CPUs: gigabytes of CUDA libraries are in no build.

A build for CPUs has every header but one, and lacks two libraries that extensions are linked with: those are made here.
What the extension calls is found when it is loaded, in the torch that loads it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kernelwright_toolchain.errors import GateError, ProvisionError
from kernelwright_toolchain.wheel.elf import asked

STUBS = ("libc10_cuda.so", "libtorch_cuda.so")
_MACROS = "include/c10/cuda/impl/cuda_cmake_macros.h"
_MACROS_TEXT = "#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n"
# Many a setup.py compiles for CUDA only where it sees a GPU, or where this says so; who builds wheels has none.
VARIABLES = {"FORCE_CUDA": "1"}
# Names of torch's C++ and of a Python beyond its limited API: these hold for one release.
_CPP = re.compile(r"_Z[A-Z]*N?K?(2at|3c10|5torch|8pybind11)\d")
# Before a project's setup.py: which CUDA it is for, and where that is, since a torch for CPUs looks for none.
PRELUDE = """import os, torch.utils.cpp_extension
    torch.version.cuda = given["cuda"]
    torch.utils.cpp_extension.CUDA_HOME = os.environ["CUDA_HOME"]"""


def _folder(tools: tuple[Path, ...]) -> Path:
    found = next((place / "torch" for place in tools if (place / "torch" / "version.py").is_file()), None)
    if found is None:
        raise ProvisionError("torch = … is in the table, and no torch is among the build's requirements")
    return found


def version(tools: tuple[Path, ...]) -> str:
    """Its release, as in "2.13.0"."""
    text = (_folder(tools) / "version.py").read_text(encoding="utf-8")
    said = re.search(r"__version__ = '(\d+\.\d+\.\d+)", text)
    if said is None:
        raise ProvisionError(f"{_folder(tools)}/version.py names no version")
    return said[1]


def complete(tools: tuple[Path, ...], compiler: str) -> None:
    """Puts what a torch for CPUs lacks beside what it has."""
    torch = _folder(tools)
    macros = torch / _MACROS
    if not macros.is_file():
        macros.parent.mkdir(parents=True, exist_ok=True)
        macros.write_text(_MACROS_TEXT, encoding="utf-8")
    for name in STUBS:
        if not (torch / "lib" / name).exists():
            command = [compiler, "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-o", str(torch / "lib" / name)]
            done = subprocess.run([*command, "-x", "c", "/dev/null"], capture_output=True, text=True, check=False)
            if done.returncode:
                raise ProvisionError(f"{compiler} made no {name} to link with:\n{done.stderr}")


def stable(libraries: Mapping[str, bytes]) -> None:
    """No library asks torch for more than its stable functions, which every later release keeps."""
    for name, data in libraries.items():
        if odd := [symbol for symbol in asked(data) if _CPP.match(symbol)]:
            raise GateError(
                f'{name} asks for {odd[0]}, and {len(odd) - 1} more of torch\'s C++: torch = "stable-abi" allows '
                'what torch/csrc/stable and its C shim declare; without these, take torch = "headers"'
            )
