# SPDX-License-Identifier: MIT
"""An environment from a lock, kept until the lock, the interpreter or the torch in it is another."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
from pathlib import Path

from kernelwright_toolchain import providers
from kernelwright_toolchain.building import clean
from kernelwright_toolchain.errors import ToolMissing
from kernelwright_toolchain.locking.wanted import lock_of
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import host, pip
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.testing.torch import Torch

FLAGS = ("install", "--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:")


def ready(name: str, torch: Torch | None = None, more: Path | None = None) -> Path:
    """The interpreter of the environment that locks/<name>.txt describes, made now if it is not there; `more` has
    packages by hash that go into it beside the lock's."""
    lock = lock_of(name)
    if not lock.is_file():
        raise ToolMissing(f"{lock} does not exist; `./kw lock` makes the locks from pyproject.toml")
    python = torch.python if torch else sys.executable
    parts = [
        lock.read_text(encoding="utf-8"),
        python,
        sys.version,
        *((torch.key, torch.lock, *torch.paths) if torch else ()),
        *([more.read_text(encoding="utf-8")] if more else ()),
    ]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    place = project().state / "environments" / f"{name}-{key}"
    with pip.locked(project().state / "environments.lock", "another process is making an environment; waiting for it"):
        complete = place / "complete"
        if not complete.is_file():
            print(f"making an environment from {project().shown(lock)}", file=sys.stderr, flush=True)
            _make(place, lock, torch, python)
            if more:
                own = place / "bin" / "python"
                pip.run_pip([*FLAGS, "-r", str(more)], f"installing what {more.name} has", own)
            complete.touch()
    return place / "bin" / "python"


def _make(place: Path, lock: Path, torch: Torch | None, python: str) -> None:
    own = clean.make(place, python)
    pip.run_pip([*FLAGS, "-r", str(lock)], f"installing {lock.name}", own)
    if torch and torch.lock:
        pinned = place / "torch.txt"
        pinned.write_text(torch.lock, encoding="utf-8")
        pip.run_pip([*FLAGS, "-r", str(pinned)], f"installing {torch.about}", own)
    if torch and torch.paths:
        site = next(place.glob("lib/python*/site-packages"))
        (site / "zz_installed_torch.pth").write_text("\n".join(torch.paths) + "\n", encoding="utf-8")


def _zig_as_compiler(zig: Path) -> Path:
    """A directory with zig as cc and c++, last on PATH: for the C and C++ tests where no compiler is."""
    folder = project().state / "compilers"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("cc", "c++"):
        text = f'#!/bin/sh\nexec {shlex.quote(str(zig))} {name} "$@"\n'
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
    return folder


def _tools() -> host.HostTools:
    """CMake, ninja and a compiler: those of the active environment, else pip's."""
    active = providers.environment.active()
    return host.tools(load(), active.provider if active else "pip")


def environment(python: Path) -> dict[str, str]:
    """The environment for a test run: this environment's programs first, then the locked CMake and ninja; last zig."""
    tools = _tools()
    last = [str(_zig_as_compiler(tools.zig))] if tools.zig else []
    programs = [str(python.parent), *map(str, tools.programs), os.environ.get("PATH", os.defpath), *last]
    cache = str(project().state / "cache" / "zig")
    zig = {"KW_ZIG": str(tools.zig), "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache} if tools.zig else {}
    if not shutil.which("make"):
        zig["CMAKE_GENERATOR"] = "Ninja"  # CMake's own choice is make
    return {**clean.environment(), **zig, "PATH": os.pathsep.join(programs), "PYTHONNOUSERSITE": "1"}
