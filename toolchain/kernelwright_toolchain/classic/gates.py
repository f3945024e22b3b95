# SPDX-License-Identifier: MIT
"""What the wheel of a project with a build of its own must be; each gate looks at the finished members."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from kernelwright_toolchain.classic import fatbin, torch
from kernelwright_toolchain.elf import Elf, View
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.wheel.elf import parse, sections

Members = Mapping[str, bytes]
Recipe = Mapping[str, Any]

_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_LEAK = re.compile(rb"/tmp/tmpxft_|/kwt-[a-z0-9_]{8}/")
# What every Linux has, as the policies of manylinux count it.
SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux-[\w-]+)\.so(\.\d+)*")
_DRIVER = re.compile(r"lib(cuda|nvidia-ml)\.so\.1")  # wherever there is a GPU
_TORCH = re.compile(r"lib(torch|c10)\w*\.so")
_NVIDIA = re.compile(
    r"lib(cublas|cudart|cufft|curand|cusolver|cusparse|cudnn|nccl|nvrtc|nvJitLink|npp|nvjpeg|cupti|cudss|nvToolsExt)"
    r"(\w*?)\.so(\.\d+)*"
)
_CUDART = b"cudaErrorMissingConfiguration\0"  # its table of errors, where it is linked statically
_WHOSE = {"sbsa": "packages for servers (SBSA)", "tegra": "a board's toolkit (Tegra)"}
_DEVICE = (".nv_fatbin", "__nv_relfatbin")


def libraries(members: Members) -> dict[str, bytes]:
    return {name: data for name, data in members.items() if _LIBRARY.search(name) and data[:4] == b"\x7fELF"}


def aliens(members: Members) -> list[str]:
    """What its libraries need that neither every Linux, the wheel, NVIDIA, its driver nor torch brings."""
    own = {PurePosixPath(name).name for name in members}
    needed = {name for data in libraries(members).values() for name in parse(data).libraries}
    return sorted(
        name for name in needed - own if not any(form.fullmatch(name) for form in (SYSTEM, _DRIVER, _TORCH, _NVIDIA))
    )


def codes(members: Members) -> set[str]:
    """Of all its libraries, as compilers name them."""
    found: set[str] = set()
    for data in libraries(members).values():
        try:
            parts = [part for part in sections(data) if part.name in _DEVICE]
        except ValueError:  # stripped of its section headers
            continue
        found |= {image.code for part in parts for image in fatbin.images(part.data)}
    return found


def _not_redistributed(members: Members, _: Recipe) -> None:
    for name in members:
        if _NVIDIA.fullmatch(PurePosixPath(name).name):
            raise GateError(
                f"{name} is NVIDIA's: link with it and leave it out; those who install the wheel have it from their "
                "torch, their toolkit or NVIDIA's packages"
            )


def _declared(members: Members, recipe: Recipe) -> None:
    """Each CUDA library is linked because the table says so, and is then the locked one."""
    known = {*recipe.get("libraries", ()), "cudart"}
    for name, data in libraries(members).items():
        for needed in parse(data).libraries:
            if (found := _NVIDIA.fullmatch(needed)) and found[1] not in known:
                raise GateError(
                    f'{name} needs {needed}, and [tool.kernelwright] libraries does not name it: add "{found[1]}", so '
                    "that it comes from a lock"
                )


def _of_the_board(members: Members, recipe: Recipe) -> None:
    """Tegra's libraries are others than those of servers, under the same names; cudart in it counts as linked."""
    target = load().targets[recipe["build"]["target"]]
    here, wanted = recipe.get("userland", "sbsa"), target.system.userland if target.system else "sbsa"
    if target.machine != "aarch64" or here == wanted:
        return
    for name, data in libraries(members).items():
        alien = [needed for needed in parse(data).libraries if _NVIDIA.fullmatch(needed)]
        if alien or _CUDART in data:
            raise GateError(
                f"{name} {f'needs {alien[0]}' if alien else 'holds cudart'}, linked from {_WHOSE[here]}: {target.name} "
                f'takes that of {_WHOSE[wanted]} alone, or its first kernel ends in "named symbol not found". '
                f"{'Build on the board, with its own toolkit' if wanted == 'tegra' else 'Build with --provider pip'}, "
                "or leave these libraries out"
            )


def _of_the_machine(members: Members, recipe: Recipe) -> None:
    """Each library is one for the machine of the target, and asks its board for no C library that it lacks."""
    target = load().targets[recipe["build"]["target"]]
    for name, data in libraries(members).items():
        if (machine := Elf(View(data)).machine) != target.machine:
            raise GateError(
                f"{name} is for {machine}, and {target.name} is {target.machine}: this project's build did not take "
                "the compilers that CXX, CC and CUDAHOSTCXX name"
            )
        if target.system and (asked := parse(data).glibc) > target.system.glibc:
            raise GateError(
                f"{name} asks for glibc {asked}, and {target.name} has {target.system.glibc}: compile it against an "
                "older C library"
            )


def _has_codes(members: Members, recipe: Recipe) -> None:
    asked = {name for name in recipe["build"]["archs"].split(",") if name}
    found = codes(members)
    if libraries(members) and (missing := sorted(asked - found)):
        raise GateError(
            f"{', '.join(missing)} {'was' if len(missing) == 1 else 'were'} asked for, and the wheel has "
            f"{', '.join(sorted(found)) or 'no GPU code'}: this project does not read CMAKE_CUDA_ARCHITECTURES or "
            'TORCH_CUDA_ARCH_LIST. Say it its own way, as in defines = { COMPUTE_CAPABILITY = "{archs}" }, or ask '
            "for what it makes in archs"
        )


def _names_no_temporary(members: Members, recipe: Recipe) -> None:
    if recipe["inexact"]:
        return
    for name, data in members.items():
        if found := _LEAK.search(data):
            raise GateError(f"{name} holds {found[0].decode()}…, a temporary file's name of this build")


def _stable(members: Members, recipe: Recipe) -> None:
    if recipe["torch"]["kind"] == "stable-abi":
        torch.stable(libraries(members))


GATES: dict[str, Callable[[Members, Recipe], None]] = {
    "nothing of NVIDIA's is in it": _not_redistributed,
    "CUDA libraries are declared": _declared,
    "a board's own libraries": _of_the_board,
    "libraries of the target's machine": _of_the_machine,
    "every code that was asked for": _has_codes,
    "no temporary file's name": _names_no_temporary,
    "torch's stable functions alone": _stable,
}


def check(members: Members, recipe: Recipe) -> None:
    """GateError of the first that fails."""
    for gate in GATES.values():
        gate(members, recipe)


def told(members: Members, recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Each gate with what it found wrong, "" for nothing."""
    for name, gate in GATES.items():
        try:
            gate(members, recipe)
        except GateError as error:
            yield name, str(error)
        else:
            yield name, ""
