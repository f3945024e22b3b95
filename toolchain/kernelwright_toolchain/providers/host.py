# SPDX-License-Identifier: MIT
"""The tools that build the host library and pack the wheel: zig, CMake, ninja, scikit-build-core, libdeflate."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.errors import RequestError, ToolMissing
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import environment, pip, system
from kernelwright_toolchain.providers.pick import machine_of
from kernelwright_toolchain.targets import Table, Target

OLDEST_CMAKE = (3, 25)


@dataclass(frozen=True)
class HostTools:
    """One set. `python` runs the build backend; `modules` go on PYTHONPATH, `programs` on PATH, in front."""

    python: Path
    modules: tuple[Path, ...]
    programs: tuple[Path, ...]
    zig: Path | None  # None where a GCC comes with the set


def pip_set(modules: Path) -> HostTools:
    """pip's locked set in this directory."""
    programs = (modules / "cmake" / "data" / "bin", modules / "bin")
    return HostTools(Path(sys.executable), (modules,), programs, modules / "ziglang" / "zig")


def _place(table: Table) -> Path:
    return pip.home(project().data(table.tools.locks[machine_of(table)]), per_python=True)


def provision(table: Table) -> HostTools:
    """pip's locked set, fetched if it is not there."""
    return pip_set(pip.install(project().data(table.tools.locks[machine_of(table)]), per_python=True))


def provisioned(table: Table) -> HostTools | None:
    """pip's locked set, if it is there already."""
    place = _place(table)
    return pip_set(place) if place.is_dir() else None


def tools(table: Table, provider: str) -> HostTools:
    """The set for a build by this provider: a locked environment brings its own, for all others it is pip's."""
    if provider in environment.HOW:
        found = environment.require(provider)
        return HostTools(found.python, (), found.programs, None)
    return provision(table)


def only_python(provider: str) -> Path | None:
    """The one interpreter with the build backend where an environment brings it; None where pip's tools serve any."""
    return environment.require(provider).python if provider in environment.HOW else None


def libdeflate(provider: str) -> Path | None:
    """The library that packs this provider's wheels; None where pip's tools have it as a module."""
    return environment.require(provider).libdeflate if provider in environment.HOW else None


def find_zig(table: Table) -> Path | None:
    """zig from the locked set, or from the wheel of the same version beside this interpreter's modules."""
    if found := provisioned(table):
        return found.zig
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / "zig"
    return path if path.is_file() and pin(table, "ziglang").endswith(f"=={_zig_version(path)}") else None


def _zig_version(zig: Path) -> str:
    return subprocess.run([str(zig), "version"], capture_output=True, text=True, check=False).stdout.strip()


def pin(table: Table, name: str) -> str:
    """The requirement of targets.toml [tools] for one package."""
    found = [line for line in table.tools.requirements if re.split(r"[=<>!~ ]", line, maxsplit=1)[0] == name]
    if not found:
        raise ToolMissing(f"targets.toml [tools]: requirements do not name {name}")
    return found[0]


def has_cmake() -> bool:
    """Whether a CMake that is new enough is on PATH."""
    path = shutil.which("cmake")
    if path is None:
        return False
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"version (\d+)\.(\d+)", said)
    return bool(number) and (int(number[1]), int(number[2])) >= OLDEST_CMAKE if number else False


def has_ninja() -> bool:
    return shutil.which("ninja") is not None or shutil.which("make") is not None


def check_target(table: Table, target: Target, provider: str) -> None:
    """RequestError if this provider, here, makes no programs for the target."""
    machine = machine_of(table)
    if target.host[provider] != "zig" and target.machine != machine:
        raise RequestError(
            f"provider {provider} compiles the host library with this machine's GCC, which makes programs for "
            f"{machine}, not for {target.name} ({target.machine}); use --provider pip, whose compiler makes both"
        )
    if provider in environment.HOW:
        environment.check_target(provider, target.name)


def cmake_defines(table: Table, target: Target, provider: str) -> dict[str, str]:
    """What CMake must be told about the host compiler of this provider."""
    if target.host[provider] == "zig":
        zig = find_zig(table)
        if zig is None:
            raise ToolMissing(
                f"provider {provider} compiles the host library with {pin(table, 'ziglang')}, which is neither "
                "importable nor in .kw/tools; `./kw provision` brings it"
            )
        return {
            "CMAKE_TOOLCHAIN_FILE": str(project().root / "cmake" / "zig.cmake"),
            "KW_ZIG": str(zig),
            "KW_ZIG_TARGET": f"{target.zig}.{target.glibc}",
        }
    gxx = system.find_gcc().path if provider == "system" else environment.require(provider).gcc
    beside = system.c_compiler(gxx)  # the library is linked as C; by default CMake would look for any cc
    return {"CMAKE_CXX_COMPILER": str(gxx), **({"CMAKE_C_COMPILER": str(beside)} if beside else {})}


def floor_is_given(table: Table, target: Target, provider: str, toolkit: str) -> bool:
    """Whether the host compiler was given the target's C library, so that needing a newer one is an error."""
    if target.host[provider] == "zig":
        return True
    return provider == "conda" and table.gcc[toolkit].sysroot == str(target.glibc)
