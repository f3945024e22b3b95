# SPDX-License-Identifier: MIT
"""Where compilers come from: `pip` brings hash-locked ones, `system` takes what is there, `auto` picks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.providers import nvrtc, system
from toolchain.providers.pick import AUTO, check_host, machine_of, settle
from toolchain.targets import Table, Toolkit

if TYPE_CHECKING:
    from toolchain.device.compiler import DeviceCompiler

__all__ = ["AUTO", "check_host", "device_compiler", "machine_of", "refuse", "settle"]


def refuse(provider: str, toolkit: Toolkit, table: Table) -> None:
    """Raises what stands in the way of this build on this machine, before anything is fetched or compiled."""
    check_host(provider, toolkit, table)
    if provider == "system":
        nvcc = system.check_nvcc(system.require_nvcc(), toolkit, table)
        system.check_gcc(system.find_gcc(), nvcc, toolkit)


def device_compiler(provider: str, toolkit: Toolkit, table: Table) -> DeviceCompiler:
    """The compiler of device code, fetched if provider pip lacks it; `provider` is settled, not `auto`."""
    from toolchain.device.nvcc import Nvcc
    from toolchain.device.nvrtc import Nvrtc

    refuse(provider, toolkit, table)
    if provider == "system":
        return Nvcc(system.require_nvcc().path, system.find_gcc().path)
    return Nvrtc(nvrtc.library(toolkit, machine_of(table)))
