# SPDX-License-Identifier: MIT
"""A whole CUDA toolkit, as classic projects look for one: from PyPI by hash, or the system's."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain import providers
from kernelwright_toolchain.errors import ProvisionError, RequestError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import pip, system
from kernelwright_toolchain.targets import Table, Toolkit

EPOCH = 315_532_800


@dataclass(frozen=True)
class Home:
    """`lock` is None for the system's own, which no lock names."""

    path: Path
    version: str
    lock: str | None


def _completed(home: Path) -> Path:
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


def from_pypi(toolkit: Toolkit, machine: str) -> Home:
    if toolkit.nvcc is None or machine not in toolkit.nvcc.locks:
        raise RequestError(
            f"PyPI has no whole nvcc of {toolkit.name} (CUDA {toolkit.release}): older releases are not there. Ask for "
            "a toolkit that has one, or for --provider system with that nvcc on PATH"
        )
    lock = toolkit.nvcc.locks[machine]
    place = pip.install(project().data(lock))
    found = sorted(place.glob("nvidia/cu*/bin/nvcc"))
    if not found:
        raise ProvisionError(f"{lock} was installed into {place}, but there is no nvidia/cu*/bin/nvcc in it")
    return Home(_completed(found[0].parents[1]), toolkit.components["nvcc"], lock)


def find(toolkit: Toolkit | None, table: Table, provider: str) -> tuple[Toolkit, Home]:
    """The toolkit that a build takes: `pip` from PyPI, `system` what is on PATH or CUDA_HOME names."""
    if provider == "system":
        nvcc = system.require_nvcc()
        row = system.toolkit_of(nvcc, table)
        if row is None or (toolkit and row != toolkit):
            raise RequestError(
                f"{nvcc.path} is CUDA {nvcc.version}; asked for is {toolkit.name if toolkit else 'a row of the table'}"
            )
        return row, Home(nvcc.path.resolve().parents[1], str(nvcc.version), None)
    row = toolkit or [row for row in table.toolkits.values() if row.nvcc][-1]
    return row, from_pypi(row, providers.machine_of(table))
