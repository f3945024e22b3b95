# SPDX-License-Identifier: MIT
"""A whole CUDA toolkit, as classic projects look for one: from PyPI by hash, or the system's."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain import providers
from kernelwright_toolchain.errors import ProvisionError, RequestError
from kernelwright_toolchain.files import write_if_changed
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import pip, system
from kernelwright_toolchain.request import find_target
from kernelwright_toolchain.targets import Library, Table, Toolkit

EPOCH = 315_532_800
USR = Path("/usr")
TEGRA = "aarch64-linux"  # as NVIDIA calls boards; sbsa-linux: servers


@dataclass(frozen=True)
class Home:
    """`lock` is None for the system's own, which no lock names."""

    path: Path
    version: str
    lock: str | None

    @property
    def userland(self) -> str:
        """Whose libraries it has, on machines of aarch64: a board's own (tegra), or those of servers (sbsa).

        NVIDIA's installers name the folder after it; PyPI's packages are those of servers.
        """
        return "tegra" if self.lock is None and (self.path / "targets" / TEGRA).is_dir() else "sbsa"

    @property
    def spread(self) -> str:
        """Why it cannot be mounted anywhere else; "" if it can. A distribution's has its headers among the system's."""
        return (
            f"nvcc's headers and libraries are spread over {self.path}, as a distribution has them"
            if self.path == USR
            else ""
        )


def completed(home: Path) -> Path:
    """PyPI's packages have `lib` and no names to link by; CMake and nvcc look for lib64/libcudart.so.

    With -lineinfo the dates of headers are written into objects, so all have one.
    """
    if (home / "lib64").exists():
        return home
    libraries = home / "lib"
    for path in home.rglob("*"):
        os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)
    for path in sorted(libraries.glob("lib*.so.*")):
        short = path.with_name(re.sub(r"\.so\..*$", ".so", path.name))
        if not short.exists():
            short.symlink_to(path.name)
    for path in (home / "bin").iterdir():
        if path.is_file():
            path.chmod(0o755)
    (home / "nvvm" / "bin" / "cicc").chmod(0o755)
    (home / "lib64").symlink_to("lib")  # last: it tells that all is done
    return home


def together(lock: Path, libraries: Path | None, only: tuple[str, ...] = ()) -> Path:
    """One lock of both: what lies in one directory is one toolkit. `only`: these packages of the first."""
    first = lock.read_text(encoding="utf-8")
    if only:
        first = "".join(f"{name}{rest}\n" for name, rest in _entries(first) if name in only)
    known = {name for name, _ in _entries(first)}
    more = _entries(libraries.read_text(encoding="utf-8")) if libraries else []
    text = first.rstrip("\n") + "\n" + "".join(f"{name}{rest}\n" for name, rest in more if name not in known)
    path = project().state / "requires" / f"{lock.stem}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_if_changed(path, text.encode())
    return path


def _entries(text: str) -> list[tuple[str, str]]:
    """Each package of a lock, with its version and hashes."""
    return re.findall(r"(?m)^([\w.-]+)(==.*(?:\n[ \t]+--hash=.*)+)", text)


def from_pypi(toolkit: Toolkit, machine: str, libraries: Path | None = None) -> Home:
    """`libraries`: a lock of what is to be linked with, such as cuBLAS."""
    if toolkit.nvcc is None or machine not in toolkit.nvcc.locks:
        raise RequestError(
            f"PyPI has no whole nvcc of {toolkit.name} (CUDA {toolkit.release}): older releases are not there. Ask for "
            "a toolkit that has one, or for --provider system with that nvcc on PATH"
        )
    lock = toolkit.nvcc.locks[machine]
    own = project().data(lock)
    place = pip.install(together(own, libraries) if libraries else own)
    found = sorted(place.glob("nvidia/cu*/bin/nvcc"))
    if not found:
        raise ProvisionError(f"{lock} was installed into {place}, but there is no nvidia/cu*/bin/nvcc in it")
    return Home(completed(found[0].parents[1]), toolkit.components["nvcc"], lock)


def row_of(toolkit: Toolkit | None, table: Table) -> Toolkit:
    """What is built with where nothing is asked for: the newest that PyPI has whole."""
    return toolkit or [row for row in table.toolkits.values() if row.nvcc][-1]


def libraries_of(table: Table, names: tuple[str, ...]) -> tuple[Library, ...]:
    """The rows of what a project links with; RequestError for a name that has none."""
    if odd := [name for name in names if name not in table.libraries]:
        raise RequestError(
            f"libraries names {odd[0]!r}, of which nothing is known; there are {', '.join(table.libraries)}"
        )
    return tuple(table.libraries[name] for name in names)


# ATen/cuda/CUDAContext.h, which most extensions of torch include, has the handles of all three.
_OF_TORCH = ("cublas", "cusolver", "cusparse")
_NO_HEADER = re.compile(r"fatal error: '?([\w./-]+)'?(?:: No such file| file not found)")


def undeclared(said: str, names: Iterable[str]) -> str:
    """What to do where a build did not find a header of one of these libraries; "" where it was none of theirs."""
    for header in _NO_HEADER.findall(said):
        stem = header.rpartition("/")[2].lower()
        for name in names:
            if stem.startswith(name):
                wanted = _OF_TORCH if name in _OF_TORCH and "ATen/cuda/" in said else (name,)
                listed = ", ".join(f'"{one}"' for one in wanted)
                return f"\n{header} is of a library of CUDA's: libraries = [{listed}] in the table, then `kwt lock`"
    return ""


def check_libraries(home: Path, wanted: tuple[Library, ...], triple: str, cure: str) -> None:
    """RequestError before anything is compiled, where a toolkit lacks what the project links with.

    It lies where NVIDIA's installers, its packages for several targets, or a distribution put it.
    """
    folders = ("lib64", "lib", f"targets/{triple.removesuffix('-gnu')}/lib", f"lib/{triple}")
    for library in wanted:
        file = f"lib{library.links[0]}.so"
        if not any((home / folder / file).exists() for folder in folders):
            raise RequestError(f"libraries names {library.name}, and {home} has no {file} to link with: {cure}")


def _of_system(toolkit: Toolkit | None, table: Table, names: tuple[str, ...]) -> tuple[Toolkit, Home]:
    nvcc = system.require_nvcc()
    row = system.toolkit_of(nvcc, table)
    if row is None or (toolkit and row != toolkit):
        raise RequestError(
            f"{nvcc.path} is CUDA {nvcc.version}; asked for is {toolkit.name if toolkit else 'a row of the table'}"
        )
    home = nvcc.path.resolve().parents[1]
    check_libraries(
        home,
        libraries_of(table, names),
        find_target(table).triple,
        "install that part of the toolkit, or build with --provider pip, which brings it",
    )
    return row, Home(home, str(nvcc.version), None)


def find(
    toolkit: Toolkit | None, table: Table, provider: str, names: tuple[str, ...] = (), libraries: Path | None = None
) -> tuple[Toolkit, Home]:
    """The toolkit that a build takes: `pip` from PyPI, `system` what is on PATH or CUDA_HOME names."""
    libraries_of(table, names)
    if provider == "system":
        return _of_system(toolkit, table, names)
    row = row_of(toolkit, table)
    home = from_pypi(row, providers.machine_of(table), libraries)
    lock = libraries.name if libraries else "the lock"
    cure = f"{lock} does not bring it; `kwt lock` writes one that does"
    check_libraries(home.path, libraries_of(table, names), find_target(table).triple, cure)
    return row, home
