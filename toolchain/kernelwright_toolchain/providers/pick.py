# SPDX-License-Identifier: MIT
"""Which provider and toolkit a build takes, decided from what is asked and what is here, before anything compiles."""

from __future__ import annotations

import platform

from kernelwright_toolchain.errors import KwError, RequestError, ToolMissing
from kernelwright_toolchain.providers import environment, nvrtc, system
from kernelwright_toolchain.targets import Table, Toolkit

AUTO = "auto"  # compilers that are here, locked or not; else pip's
LOCKED = "locked"  # those of the active environment of this tree's locks; else pip's


def machine_of(table: Table) -> str:
    """The build machine, as targets.toml calls it."""
    machine = platform.machine()
    known = sorted({target.machine for target in table.targets.values()})
    if machine not in known:
        raise RequestError(
            f"this build machine is {machine}, for which targets.toml has no row; "
            f"build on one of {', '.join(known)}, where every target can be built"
        )
    return machine


def _usable(table: Table, wanted: Toolkit | None) -> Toolkit | None:
    """The toolkit of an nvcc that would do: of a known release, the one that is asked for, with a GCC it takes."""
    try:
        nvcc = system.find_nvcc()
        row = system.toolkit_of(nvcc, table) if nvcc else None
        if nvcc is None or row is None or (wanted and wanted != row):
            return None
        system.compilers(row, table)
    except KwError:
        return None
    return row


def _default(table: Table, provider: str, default: str) -> Toolkit:
    """The target's own toolkit, or the next that this provider has for this build machine."""
    rows = list(table.toolkits.values())
    start = rows.index(table.toolkits[default])
    machine = machine_of(table)
    return next((row for row in rows[start:] if machine in row.hosts.get(provider, ())), rows[start])


def settle(
    table: Table, provider: str, toolkit: str | None, default: str, *, fetching: bool = False
) -> tuple[str, str]:
    """The provider and the toolkit's name, where `auto`, `locked` or no toolkit at all left them open.

    `default` is the target's own toolkit. Provider system without a toolkit means the one whose nvcc is here.
    `fetching`: NVRTC may be missing, since the caller is about to fetch it.
    """
    wanted = next((row for row in table.toolkits.values() if toolkit in (row.name, str(row.release))), None)
    if toolkit is not None and wanted is None:
        raise RequestError(f"toolkit {toolkit!r} is not in targets.toml; there are {', '.join(table.toolkits)}")
    found = environment.active()
    if provider in (AUTO, LOCKED) and found:
        provider = found.provider
    if found and provider == found.provider and found.toolkit and wanted is None:
        wanted = table.toolkits.get(found.toolkit)
    if provider == LOCKED:
        provider = "pip"
    if provider == "system" and wanted is None:
        nvcc = system.require_nvcc()
        row = system.toolkit_of(nvcc, table)
        if row is None:
            raise RequestError(
                f"{nvcc.path} is CUDA {nvcc.version}, which has no row in targets.toml; there are "
                f"{', '.join(f'{t.name} ({t.release})' for t in table.toolkits.values())}; use --provider pip"
            )
        return provider, row.name
    if provider == AUTO:
        if usable := _usable(table, wanted):
            return "system", usable.name
        provider = "pip"
        machine = machine_of(table)
        kit = wanted or _default(table, provider, default)
        if not fetching and machine in kit.hosts[provider] and not nvrtc.here(kit, machine):
            raise ToolMissing(
                "there is no compiler for device code: no usable nvcc on PATH or in CUDA_HOME, and NVRTC "
                f"{kit.components['nvrtc']} is neither importable nor in .kw/tools. `./kw provision` brings it; "
                "`./kw build` does all of it; `pip install .` asks for it by itself"
            )
    return provider, (wanted or _default(table, provider, default)).name


def check_host(provider: str, toolkit: Toolkit, table: Table) -> str:
    """The build machine, or RequestError with the choices if this provider does not have the toolkit there."""
    machine = machine_of(table)
    if provider not in toolkit.hosts:
        raise RequestError(
            f"provider {provider!r} does not exist; there are {', '.join((*toolkit.hosts, LOCKED, AUTO))}"
        )
    if machine in toolkit.hosts[provider]:
        return machine
    others = [t.name for t in table.toolkits.values() if machine in t.hosts[provider]]
    able = " or ".join(toolkit.hosts[provider])
    also = f", also for {machine} (--target)" if provider == "pip" else ""
    choices = [f"build on {able}{also}"] if able else []
    choices += [f"ask for --toolkit {others[0]}"] if others else []
    choices += ["use --provider pip"] if provider != "pip" and machine in toolkit.hosts["pip"] else []
    choices += [f"use --provider system with the nvcc of CUDA {toolkit.release}"] if provider != "system" else []
    raise RequestError(
        f"provider {provider} has no toolkit {toolkit.name} (CUDA {toolkit.release}) for build machines of {machine}, "
        f"which this is; {', or '.join(choices)}"
    )
