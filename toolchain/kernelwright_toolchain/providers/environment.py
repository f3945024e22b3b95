# SPDX-License-Identifier: MIT
"""The environment of this tree's conda or Nix lock that this process runs in, if it runs in one.

Found by what such an environment cannot lack, so that somebody else's conda environment or Nix shell is no obstacle:
then the build takes the compilers that it takes anywhere else.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.errors import RequestError, ToolMismatch, ToolMissing
from kernelwright_toolchain.locking import conda as lock
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import pip, system
from kernelwright_toolchain.targets import Table, Toolkit

STORE = Path("/nix/store")
# A person's shell names a toolkit for everything by the first; the others name one compiler, and mean it.
HOMES, GCC_NAMES = ("CUDA_HOME", "CUDA_PATH"), ("CUDAHOSTCXX", "NVCC_CCBIN")
# What tells a process which environment it is in; the wrappers of Nix's compilers hear variables of their own too.
_CARRIED = ("CONDA_PREFIX", "KW_NIX_TARGET", "KW_NIX_TOOLKIT", "KW_LIBDEFLATE", "CUDACXX", "CUDAHOSTCXX", pip.GIVEN)
HOW = {
    "conda": f"`conda-lock install -n kernelwright {lock.LOCK}` makes it, `conda activate kernelwright` enters it",
    "nix": "`nix develop` enters it",
}


@dataclass(frozen=True)
class Environment:
    """Where its tools are. Everything that a build takes from it lies below `home`."""

    provider: str
    about: str
    home: Path
    python: Path
    nvcc: Path
    gcc: Path
    libdeflate: Path
    target: str | None = None  # a Nix shell is for one target, and has one toolkit
    toolkit: str | None = None

    @property
    def programs(self) -> tuple[Path, ...]:
        return (self.python.parent, self.nvcc.parent)

    def holds(self, path: str | Path) -> bool:
        """Whether this file is the environment's, as it is named or as it is."""
        return any(place.is_relative_to(self.home) for place in (Path(path).absolute(), Path(path).resolve()))


def _conda() -> Environment | None:
    """Whole or not: an environment with the lock's nvcc is meant to be this tree's."""
    if not os.environ.get("CONDA_PREFIX"):
        return None
    prefix = Path(os.environ["CONDA_PREFIX"])
    known = {package for packages in _locked_here().values() for package in packages if package.name == "cuda-nvcc"}
    if not any(_installed(prefix, package) for package in known):
        return None
    triple = f"{platform.machine()}-conda-linux-gnu"
    return Environment(
        provider="conda",
        about=f"the conda environment {prefix}",
        home=prefix,
        python=prefix / "bin" / "python",
        nvcc=prefix / "bin" / "nvcc",
        gcc=prefix / "bin" / f"{triple}-g++",
        libdeflate=prefix / "lib" / "libdeflate.so",
    )


def _nix() -> Environment | None:
    target = os.environ.get("KW_NIX_TARGET")
    if not target:
        return None
    return Environment(
        provider="nix",
        about=f"the Nix shell for {target}",
        home=STORE,
        python=Path(shutil.which("python3") or "python3"),
        nvcc=Path(os.environ.get("CUDACXX", "nvcc")),
        gcc=Path(os.environ.get("CUDAHOSTCXX", "g++")),
        libdeflate=Path(os.environ.get("KW_LIBDEFLATE", "libdeflate.so")),
        target=target,
        toolkit=os.environ.get("KW_NIX_TOOLKIT"),
    )


def active() -> Environment | None:
    """The one this process runs in; a Nix shell entered from a conda environment is the inner one."""
    return _nix() or _conda()


def carried() -> dict[str, str]:
    """The variables that make another process, with an environment otherwise bare, run in the active one."""
    return {name: value for name, value in os.environ.items() if name in _CARRIED or name.startswith("NIX_")}


def _locked_here() -> dict[str, list[lock.Locked]]:
    """What everybody gets of each conda lock on this machine; none in a tree without locks, as an unpacked sdist is."""
    here = lock.subdir(platform.machine())
    return {
        name: [one for one in lock.locked(name=name) if (one.platform, one.category) == (here, lock.MAIN)]
        for name in lock.LOCKS.values()
        if (project().root / name).is_file()
    }


def _installed(prefix: Path, package: lock.Locked) -> bool:
    return (prefix / "conda-meta" / f"{package.stem}.json").is_file()


def _missing(prefix: Path) -> dict[str, list[str]]:
    """Lock -> what the environment lacks of it: it is of the one that lacks least, each Python having its own."""
    return {
        name: [package.stem for package in packages if not _installed(prefix, package)]
        for name, packages in _locked_here().items()
    }


def require(provider: str) -> Environment:
    """The active environment of this provider, whole; or an error that says how to get into one."""
    found = active()
    if found is None or found.provider != provider:
        where = f"this is {found.about}" if found else "none is active"
        raise ToolMissing(
            f"provider {provider} takes the compilers of this tree's {provider} environment, and {where}; "
            f"{HOW[provider]}; or use --provider pip, which needs none"
        )
    if provider == "conda":
        name, missing = min(_missing(found.home).items(), key=lambda one: len(one[1]))
        if missing:
            raise ToolMismatch(
                f"{found.about} is not what {name} says: {len(missing)} of its packages are missing or of another "
                f"build, such as {', '.join(missing[:3])}; {HOW[provider]}; or use --provider pip"
            )
    return found


def _unset_homes(found: Environment) -> None:
    """Takes a toolkit that the shell names for everything out of this build and of all that it starts, and says so."""
    for name in HOMES:
        if (named := os.environ.get(name)) and not found.holds(named):
            del os.environ[name]
            print(f"{name}={named} is unset for this build: {found.about} has its own", file=sys.stderr, flush=True)


def _unmixed(found: Environment) -> None:
    """ToolMismatch if a variable names a compiler outside the environment: which one is meant is not ours to guess."""
    for name in ("CUDACXX", *GCC_NAMES):
        named = os.environ.get(name)
        path = shutil.which(named) or named if named else None
        if path and not found.holds(path):
            what = "GCC" if name in GCC_NAMES else "CUDA"
            raise ToolMismatch(
                f"{name}={named} names a {what} outside {found.about}; its nvcc and its GCC belong together: unset "
                f"{name}, or leave the environment and use --provider system"
            )


def compilers(provider: str, toolkit: Toolkit, table: Table) -> tuple[system.FoundNvcc, system.FoundGcc]:
    """The nvcc and the GCC of the active environment, after checking that they are those of the table."""
    found = require(provider)
    _unset_homes(found)
    _unmixed(found)
    nvcc = system.check_nvcc(system.read_nvcc(found.nvcc), toolkit, table)
    gcc = system.check_gcc(system.read_gcc(found.gcc, f"that of {found.about}"), nvcc, toolkit)
    for what, is_, wanted in (
        ("nvcc", str(nvcc.version), toolkit.components["nvcc"]),
        ("GCC", str(gcc.version.major), str(table.gcc[toolkit.name].major)),
    ):
        if is_ != wanted:
            raise ToolMismatch(
                f"the {what} of {found.about} is {is_}, and targets.toml locks {wanted}; {HOW[provider]}; "
                "or use --provider pip"
            )
    return nvcc, gcc


def check_target(provider: str, target: str) -> None:
    """RequestError if the active shell is for another target: SBSA's and Tegra's archives are never mixed."""
    found = require(provider)
    if found.target and found.target != target:
        raise RequestError(
            f"{found.about} has the compilers of {found.target}, and {target} was asked for; "
            f"`nix develop .#{target}` has its own; or use --provider pip, which builds every target anywhere"
        )
