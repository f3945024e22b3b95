# SPDX-License-Identifier: MIT
"""Where compilers come from: `pip` brings hash-locked ones, `conda` and `nix` are this tree's locked environments,
`system` takes what is there; `locked` and `auto` pick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright_toolchain.providers import environment, nvrtc, system
from kernelwright_toolchain.providers.pick import AUTO, LOCKED, check_host, machine_of, settle
from kernelwright_toolchain.targets import Table, Toolkit

if TYPE_CHECKING:
    from kernelwright_toolchain.device.compiler import DeviceCompiler
    from kernelwright_toolchain.providers.system import FoundGcc, FoundNvcc

__all__ = ["AUTO", "LOCKED", "check_host", "compilers", "device_compiler", "machine_of", "refuse", "settle"]


def compilers(provider: str, toolkit: Toolkit, table: Table) -> tuple[FoundNvcc, FoundGcc] | None:
    """The checked nvcc and GCC of this provider; None for pip, whose device compiler needs no host compiler."""
    if provider == "pip":
        return None
    if provider == "system":
        return system.compilers(toolkit, table)
    return environment.compilers(provider, toolkit, table)


def refuse(provider: str, toolkit: Toolkit, table: Table) -> None:
    """Raises what stands in the way of this build on this machine, before anything is fetched or compiled."""
    check_host(provider, toolkit, table)
    compilers(provider, toolkit, table)


def device_compiler(provider: str, toolkit: Toolkit, table: Table) -> DeviceCompiler:
    """The compiler of device code, fetched if provider pip lacks it; `provider` is settled, not `auto`."""
    from kernelwright_toolchain.device.nvcc import Nvcc
    from kernelwright_toolchain.device.nvrtc import Nvrtc

    check_host(provider, toolkit, table)
    if found := compilers(provider, toolkit, table):
        nvcc, gcc = found
        return Nvcc(nvcc.path, gcc.path, provider=provider)
    return Nvrtc(nvrtc.library(toolkit, machine_of(table)))
