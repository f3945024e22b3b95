# SPDX-License-Identifier: MIT
"""Host code for another machine, compiled on this one: a GCC that crosses, and a toolkit with that machine's libraries.

Device code is the same for both. nvcc itself, its headers and what it starts stay this machine's; of the other one
there are the libraries that are linked, from PyPI's packages for servers (SBSA).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from kernelwright_toolchain.classic import requirements, toolkit
from kernelwright_toolchain.errors import RequestError, ToolMissing
from kernelwright_toolchain.files import link_or_copy
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import pip, system
from kernelwright_toolchain.targets import Target, Toolkit


def _crosses(path: Path, target: Target) -> bool:
    done = subprocess.run([path, "-dumpmachine"], capture_output=True, text=True, check=False)
    return done.stdout.strip() == target.triple


def compiler(target: Target, kit: Toolkit, nvcc: system.FoundNvcc) -> system.FoundGcc:
    """The g++ for that machine: the one that CUDAHOSTCXX names, else the newest on PATH that this nvcc takes."""
    if any(os.environ.get(name) for name in ("CUDAHOSTCXX", "NVCC_CCBIN")):
        found = system.find_gcc()
        if not _crosses(found.path, target):
            raise RequestError(
                f"{found.path} ({found.why}) does not compile for {target.triple}; unset it, or name one that does"
            )
        return system.check_gcc(found, nvcc, kit)
    names = [f"{target.triple}-g++-{major}" for major in range(kit.gcc.max, kit.gcc.min - 1, -1)]
    for name in (*names, f"{target.triple}-g++"):
        if path := shutil.which(name):
            return system.check_gcc(system.read_gcc(Path(path), f"{name} on PATH"), nvcc, kit)
    raise ToolMissing(
        f"{target.name} is {target.machine}: its host code takes a GCC that crosses, and there is no "
        f"{target.triple}-g++ on PATH. apt-get install g++-{min(kit.gcc.max, 12)}-{target.triple}, or build there, or "
        "as a device-only package, which crosses without one"
    )


def _lock(kit: Toolkit, target: Target, libraries: Path | None) -> Path:
    """Of cudart for that machine, and of what is linked beside it."""
    if kit.nvcc is None or target.machine not in kit.nvcc.locks:
        raise RequestError(
            f"PyPI has no CUDA libraries of {kit.name} for {target.machine} that are locked here: ask for a toolkit "
            "that has them, or build there"
        )
    return toolkit.together(project().data(kit.nvcc.locks[target.machine]), libraries, only=(kit.pypi["cudart"],))


def home(host: toolkit.Home, kit: Toolkit, target: Target, libraries: Path | None) -> toolkit.Home:
    """A toolkit of this machine's programs and the other one's libraries: of links, so it takes no room."""
    lock = _lock(kit, target, libraries)
    theirs = next(pip.install(lock, words=requirements.foreign(target.machine)).glob("nvidia/cu*/lib")).parent
    key = hashlib.sha256(f"{host.path}\0{lock.read_text(encoding='utf-8')}".encode()).hexdigest()[:16]
    place = project().state / "tools" / f"cross-{kit.name}-{target.machine}-{key}"
    with pip.locked(project().state / "tools.lock", "another process is installing tools; waiting"):
        if not place.is_dir():
            with pip.published(place) as part:
                _linked(host.path, part, leave_out=("lib", "lib64"))
                _linked(theirs, part)
                toolkit.completed(part)
    return toolkit.Home(place, host.version, host.lock)


def _linked(tree: Path, to: Path, leave_out: tuple[str, ...] = ()) -> None:
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree)
        if name.parts[0] in leave_out or path.is_dir() or (to / name).exists():
            continue
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(str(path), str(to / name))


def variables(target: Target) -> dict[str, str]:
    """For Python's build tools, which name an extension and a wheel after the machine."""
    tag = f"{sys.implementation.cache_tag}-{target.triple}"
    return {"_PYTHON_HOST_PLATFORM": f"{sys.platform}-{target.machine}", "SETUPTOOLS_EXT_SUFFIX": f".{tag}.so"}


def cmake(target: Target, cxx: str) -> dict[str, str]:
    """Definitions by which CMake crosses."""
    return {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": target.machine, "CMAKE_CUDA_HOST_COMPILER": cxx}
