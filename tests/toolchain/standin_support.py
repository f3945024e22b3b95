# SPDX-License-Identifier: MIT
"""Environments as conda and Nix make them, of this machine's real nvcc, GCC and CMake: only the installer is missing.

The tree in them is a copy whose table names this machine's compilers and C library as the reference, and which looks
for the Nix store where the stand-in has it; nothing else is changed.
"""

from __future__ import annotations

import ctypes.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from kernelwright_toolchain import source, targets
from kernelwright_toolchain.errors import KwError
from kernelwright_toolchain.locking import conda as lock
from kernelwright_toolchain.providers import host, system
from kernelwright_toolchain.testing import locked_torch
from kernelwright_toolchain.wheel.recipe import ENVIRONMENTS
from tests.tree import ROOT

TABLE = targets.load()
STORE = 'STORE = Path("/nix/store")'
OTHERS = ("bin", "cmake", "deflate", "ninja", "ziglang")  # of pip's tools, what an environment has programs for
WHOLE, TESTS = "Options()", ("tests/ops/gated/test_swiglu.py", "-q", "-rs")
NEEDED = ("CUDA_HOME", "CUDA_PATH", "CUDACXX", "CUDAHOSTCXX", "NVCC_CCBIN")


def compilers() -> tuple[system.FoundNvcc, system.FoundGcc, str]:
    """This machine's pair and the row it is of, or a skip that says what is missing."""
    if any(os.environ.get(name) for name in NEEDED):
        pytest.skip(f"one of {', '.join(NEEDED)} names a compiler: the stand-in would be a mix")
    try:
        nvcc, gcc = system.require_nvcc(), system.find_gcc()
    except KwError as error:
        pytest.skip(f"no real pair of compilers: {error}")
    row = system.toolkit_of(nvcc, TABLE)
    if row is None or row.components["nvcc"] != str(nvcc.version) or not row.gcc.accepts(gcc.version.major):
        pytest.skip(f"nvcc {nvcc.version} with GCC {gcc.version} is no row of targets.toml")
    return nvcc, gcc, row.name


def tree(place: Path, made: Prefix, store: Path | None = None) -> Path:
    """The inputs of a build and the environments' locks, with the compilers of this prefix as the reference.

    `store`: where the Nix store is, if its programs are not the prefix itself.
    """
    for path in [*source.input_files(ROOT), ROOT / "noxfile.py", *(ROOT / name for name in ENVIRONMENTS.values())]:
        to = place / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    (place / "targets.toml").write_text(_table((ROOT / "targets.toml").read_text(encoding="utf-8"), made))
    code = place / "toolchain" / "kernelwright_toolchain" / "providers" / "environment.py"
    text = code.read_text(encoding="utf-8")
    assert STORE in text
    code.write_text(text.replace(STORE, f'STORE = Path("{store or made.place}")'), encoding="utf-8")
    return place


def with_tests(place: Path) -> Path:
    """A tree of the above with the tests and their locks, whose verb `tests` builds what TESTS are about alone."""
    torch, here = lock.torch_version(), locked_torch.place()
    if here not in locked_torch.known()[torch]:
        pytest.skip(f"{locked_torch.TABLE} has no torch {torch} for Python {here}")
    for name in ("tests", "locks"):
        shutil.copytree(ROOT / name, place / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    verb = place / "toolchain" / "kernelwright_toolchain" / "commands" / "tests.py"
    text = verb.read_text(encoding="utf-8")
    assert WHOLE in text
    verb.write_text(text.replace(WHOLE, 'Options(ops="swiglu", archs="80")'), encoding="utf-8")
    return place


def passed(
    done: subprocess.CompletedProcess[str], torch: str = rf"{re.escape(lock.torch_version())}, .*, locked"
) -> None:
    """TESTS passed, with a torch of which this is said; what was left out needs a GPU."""
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert re.search(rf"^torch {torch}$", done.stderr, re.MULTILINE), said
    assert re.search(r"^\d{2,} passed", done.stdout, re.MULTILINE), said
    skips = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert not [line for line in skips if not re.search("GPU|no NVIDIA driver", line)]


def _table(text: str, made: Prefix) -> str:
    """The table with these compilers as the reference, which conda and Nix are said to have."""
    text = re.sub(r'^toolkit = "\w+"', f'toolkit = "{made.toolkit}"', text, flags=re.MULTILINE)
    before, row, after = text.partition(f"[toolkit.{made.toolkit}]")
    both = '["x86_64", "aarch64"]'
    text = before + row + re.sub(r"conda = \[.*?\], nix = \[.*?\]", f"conda = {both}, nix = {both}", after, count=1)
    text = re.sub(rf"\n\[gcc\.{made.toolkit}\]\n(?:.+\n)+", "\n", text)
    sysroot = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 0").split()[1]  # this GCC's is the machine's own
    gcc = f'version = "{made.gcc}"\nmajor = {made.gcc.major}\nsysroot = "{sysroot}"\n'
    return f"{text}\n[gcc.{made.toolkit}]\n{gcc}"


class Prefix:
    """A directory with the programs under the names they have in the environment. Each is reached through a script."""

    def __init__(self, place: Path, gxx: str) -> None:
        nvcc, gcc, self.toolkit = compilers()
        self.gcc = gcc.version
        self.place, self.bin = place, place / "bin"
        tools = host.provisioned(TABLE)
        library = ctypes.util.find_library("deflate")
        if tools is None or library is None:
            pytest.skip("no scikit-build-core in .kw/tools, or no shared libdeflate on this machine")
        venv.create(place, with_pip=False, symlinks=True)
        (module_path,) = (place / "lib").glob("python*/site-packages")
        for module in (path for path in tools.modules[0].iterdir() if not path.name.startswith(OTHERS)):
            (module_path / module.name).symlink_to(module)
        (module_path / "nox.pth").write_text(f"{_with_nox()}\n")
        c_compiler = system.c_compiler(gcc.path) or gcc.path
        for name, real in ((gxx, gcc.path), (gxx.replace("g++", "gcc"), c_compiler), ("nvcc", nvcc.path)):
            self._script(name, real)
        for name in ("cmake", "ninja"):
            found = next(path for folder in tools.programs if (path := folder / name).is_file())
            self._script(name, found)
        self._script("nox", self.bin / "python", "-m", "nox")
        self.libdeflate = place / "lib" / "libdeflate.so"
        self.libdeflate.symlink_to(_loaded(library))

    def _script(self, name: str, real: Path, *words: str) -> None:
        (self.bin / name).write_text(f'#!/bin/sh\nexec {shlex.join([str(real), *words])} "$@"\n')
        (self.bin / name).chmod(0o755)

    def run(self, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A verb, as a person inside the environment asks for it."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        env = {**kept, "PATH": f"{self.bin}:/usr/bin:/bin", **variables}
        verb, *options = words
        command = [str(self.bin / "nox"), "-s", verb, "--", *options]
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def _with_nox() -> Path:
    """Where nox is, and virtualenv, which comes with it in these environments too."""
    tag = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found = sorted((ROOT / ".kw").glob(f"nox-*/lib/{tag}/site-packages/nox"))
    if not found:
        pytest.skip(f"no nox for {tag} in .kw/nox-*: `./kw` makes it")
    return found[-1].parent


def _loaded(library: str) -> str:
    """The path of a library that the linker knows by name."""
    ctypes.CDLL(library)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(line.split()[-1] for line in maps if library in line)


def conda(place: Path) -> tuple[Prefix, dict[str, str]]:
    """An environment that conda-lock.yml would have made: its records, conda's names of the compilers."""
    machine = os.uname().machine
    made = Prefix(place, f"{machine}-conda-linux-gnu-g++")
    (place / "conda-meta").mkdir()
    for package in lock.locked():
        if (package.platform, package.manager) == (lock.subdir(machine), lock.CONDA):
            (place / "conda-meta" / f"{package.stem}.json").write_text("{}")
    # What activation sets: conda's compiler packages export all of these.
    stray = {"CFLAGS": "-march=native", "CXXFLAGS": "-march=native", "LDFLAGS": f"-Wl,-rpath,{place}/lib"}
    return made, {"CONDA_PREFIX": str(place), "NVCC_PREPEND_FLAGS": "-lineinfo", "CMAKE_ARGS": "-DX=1", **stray}


def nix(place: Path) -> tuple[Prefix, dict[str, str]]:
    """A store whose shell is the flake's: what nix/toolchain.nix sets, and nothing else in the environment."""
    made = Prefix(place, "g++")
    if not (made.bin / "python3").exists():
        (made.bin / "python3").symlink_to("python")
    target = next(t.name for t in TABLE.targets.values() if t.release and t.machine == os.uname().machine)
    return made, {
        "KW_NIX_TARGET": target, "KW_NIX_TOOLKIT": made.toolkit, "CUDACXX": f"{made.bin}/nvcc", "CUDAHOSTCXX": f"{made.bin}/g++",
        "KW_LIBDEFLATE": str(made.libdeflate), "NIX_DONT_SET_RPATH": "1",
    }  # fmt: skip
