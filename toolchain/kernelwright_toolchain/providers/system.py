# SPDX-License-Identifier: MIT
"""The compilers that a machine already has: nvcc and the GCC beneath it. Checked, never trusted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.errors import ToolMismatch, ToolMissing
from kernelwright_toolchain.targets import Table, Toolkit, Version


@dataclass(frozen=True)
class FoundNvcc:
    path: Path
    version: Version  # in full

    @property
    def release(self) -> Version:
        return self.version.release


@dataclass(frozen=True)
class FoundGcc:
    path: Path
    version: Version
    why: str  # how it came to be the one: a variable, or PATH


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout + done.stderr


def find_nvcc() -> FoundNvcc | None:
    """The nvcc of CUDA_HOME or CUDA_PATH, or else the first on PATH; None if there is none."""
    homes = [Path(os.environ[name]) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found = next((path for home in homes if (path := shutil.which("nvcc", path=str(home)))), None)
    found = found or shutil.which("nvcc")
    return read_nvcc(Path(found)) if found else None


def read_nvcc(path: Path) -> FoundNvcc:
    """This nvcc, asked which one it is."""
    said = _output([str(path), "--version"])
    number = re.search(r"\bV(\d+\.\d+\.\d+)\b", said) or re.search(r"release (\d+\.\d+)", said)
    if not number:
        raise ToolMismatch(f"{path} --version does not say which CUDA it is of; it said: {said.strip() or 'nothing'}")
    return FoundNvcc(path, Version.parse(number[1]))


def find_gcc() -> FoundGcc:
    """The host compiler nvcc would use: the one CUDAHOSTCXX or NVCC_CCBIN names, or else g++ on PATH."""
    named = next(((name, os.environ[name]) for name in ("CUDAHOSTCXX", "NVCC_CCBIN") if os.environ.get(name)), None)
    why = f"{named[0]} names it" if named else "the first g++ on PATH"
    asked = named[1] if named else "g++"
    if Path(asked).is_dir():
        asked = str(Path(asked) / "g++")
    found = shutil.which(asked)
    if not found:
        missing = f"{named[0]}={named[1]} is not there" if named else "there is no g++ on PATH"
        raise ToolMissing(
            f"nvcc needs a host GCC, and {missing}; install one (apt-get install g++), set CUDAHOSTCXX to one, "
            "or use --provider pip, which brings its own compilers"
        )
    return read_gcc(Path(found), why)


def read_gcc(path: Path, why: str) -> FoundGcc:
    """This g++, asked which one it is; `why` it is the one."""
    macros = _output([str(path), "-dM", "-E", "-x", "c++", os.devnull])
    numbers = [re.search(rf"#define {key} (\d+)", macros) for key in ("__GNUC__", "__GNUC_MINOR__")]
    if "__clang__" in macros or not all(numbers):
        raise ToolMismatch(
            f"nvcc needs a host GCC, but {path} ({why}) is not one; set CUDAHOSTCXX to a g++, or use --provider pip"
        )
    return FoundGcc(path, Version(tuple(int(number[1]) for number in numbers if number)), why)


def check_gcc(gcc: FoundGcc, nvcc: FoundNvcc, toolkit: Toolkit) -> FoundGcc:
    """The same GCC, or ToolMismatch if this nvcc does not take it."""
    span, major = toolkit.gcc, gcc.version.major
    if span.accepts(major):
        return gcc
    others = [path for n in range(span.max, span.min - 1, -1) if (path := shutil.which(f"g++-{n}"))]
    cure = (
        f"set CUDAHOSTCXX={others[0]}, which is here"
        if others
        else f"install g++-{span.max} and set CUDAHOSTCXX=g++-{span.max}"
    )
    side = "newer than" if major > span.max else "older than"
    raise ToolMismatch(
        f"host GCC {gcc.version} at {gcc.path} ({gcc.why}) is {side} what nvcc {nvcc.version} at {nvcc.path} takes: "
        f"GCC {span.min} to {span.max}. -allow-unsupported-compiler is no way out: it ends in errors about _Float32 "
        f"in the C library's headers. Either {cure}, or use --provider pip, which needs no GCC."
    )


def _origin(program: Path) -> str:
    """Whose a program is: a conda environment's, the Nix store's, or the system's."""
    for place in (program.absolute(), program.resolve()):
        if place.is_relative_to("/nix/store"):
            return "the Nix store"
        if home := next((above for above in place.parents if (above / "conda-meta").is_dir()), None):
            return f"the conda environment {home}"
    return "the system"


def check_mix(gcc: FoundGcc, nvcc: FoundNvcc) -> None:
    """ToolMismatch if the two are of different installations: each brings a C library of its own, often another one."""
    whose, other = _origin(nvcc.path), _origin(gcc.path)
    if whose != other:
        raise ToolMismatch(
            f"nvcc {nvcc.version} at {nvcc.path} is of {whose}, but its host GCC at {gcc.path} ({gcc.why}) is of "
            f"{other}; "
            f"set CUDAHOSTCXX to a g++ of {whose}, take both from one environment, or use --provider pip"
        )


def c_compiler(gxx: Path) -> Path | None:
    """The gcc beside a g++, which links what is linked as C; None if there is none of that name."""
    name = gxx.name.replace("g++", "gcc") if "g++" in gxx.name else gxx.name.replace("c++", "cc")
    beside = gxx.with_name(name)
    return beside if name != gxx.name and beside.is_file() else None


def compilers(toolkit: Toolkit, table: Table) -> tuple[FoundNvcc, FoundGcc]:
    """The nvcc and the GCC that are found here, after checking that they go together."""
    nvcc = check_nvcc(require_nvcc(), toolkit, table)
    gcc = check_gcc(find_gcc(), nvcc, toolkit)
    check_mix(gcc, nvcc)
    return nvcc, gcc


def toolkit_of(nvcc: FoundNvcc, table: Table) -> Toolkit | None:
    """The row of this nvcc's release, if there is one."""
    return next((row for row in table.toolkits.values() if row.release == nvcc.release), None)


def require_nvcc() -> FoundNvcc:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        home = os.environ.get(name)
        if home and not shutil.which("nvcc", path=str(Path(home) / "bin")):
            raise ToolMismatch(f"{name} is {home}, and there is no nvcc in its bin; correct {name} or unset it")
    nvcc = find_nvcc()
    if nvcc is None:
        raise ToolMissing(
            "provider system needs nvcc, and there is none on PATH, in CUDA_HOME or in CUDA_PATH; "
            "put its bin directory on PATH, or use --provider pip, which brings NVIDIA's compiler from PyPI"
        )
    return nvcc


def check_nvcc(nvcc: FoundNvcc, toolkit: Toolkit, table: Table) -> FoundNvcc:
    """The same nvcc, or ToolMismatch if it is of another release than the toolkit that was asked for."""
    if nvcc.release == toolkit.release:
        return nvcc
    row = toolkit_of(nvcc, table)
    instead = f"ask for --toolkit {row.name}, which this nvcc is of, or " if row else ""
    raise ToolMismatch(
        f"toolkit {toolkit.name} (CUDA {toolkit.release}) was asked for, but {nvcc.path} is CUDA {nvcc.version}; "
        f"{instead}put the bin directory of CUDA {toolkit.release} first on PATH, or use --provider pip"
    )
