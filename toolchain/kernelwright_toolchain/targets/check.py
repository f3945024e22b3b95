# SPDX-License-Identifier: MIT
"""What must hold between the rows of targets.toml."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernelwright_toolchain.errors import TableError
from kernelwright_toolchain.targets.model import Table, Target, Toolkit, Version


def _fail(row: str, text: str) -> TableError:
    return TableError(f"targets.toml [{row}]: {text}")


def check(table: Table) -> None:
    """Raises a TableError for the first row that does not fit the others."""
    for toolkit in table.toolkits.values():
        _components(toolkit)
        _driver_and_gcc(toolkit)
        _hosts(table, toolkit)
    for target in table.targets.values():
        _target(table, target)
    # Two default wheels with one platform tag would be two contents under one file name.
    _distinct("platform_tag", ((f"target.{t.name}", t.platform_tag) for t in table.targets.values() if t.release))
    _distinct("release", ((f"toolkit.{t.name}", str(t.release)) for t in table.toolkits.values()))
    _locks(table)
    _ptx(table)
    _features(table)
    _gcc(table)


def _components(toolkit: Toolkit) -> None:
    """Every component is of the toolkit's release; only cccl may be newer."""
    row = f"toolkit.{toolkit.name}"
    versions = [(f"components.{part}", toolkit.components[part]) for part in ("nvcc", "nvrtc", "cudart")]
    for key, text in [*versions, ("redist", toolkit.redist)]:
        if Version.parse(text).release != toolkit.release:
            raise _fail(row, f"{key} = {text} is not of release {toolkit.release}")
    pin = re.fullmatch(r"[a-z0-9-]+==([0-9]{1,9}(?:\.[0-9]{1,9})+)", toolkit.pypi["meta"])
    if not pin or Version.parse(pin[1]).release != toolkit.release:
        raise _fail(row, f"pypi.meta = {toolkit.pypi['meta']!r} does not pin release {toolkit.release}")
    for part in ("nvrtc", "cudart", "cccl"):
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", toolkit.pypi[part]):
            raise _fail(row, f"pypi.{part} = {toolkit.pypi[part]!r} is not the name of a distribution")


def _driver_and_gcc(toolkit: Toolkit) -> None:
    row = f"toolkit.{toolkit.name}"
    if toolkit.gcc.min > toolkit.gcc.max:
        raise _fail(row, f"gcc range {toolkit.gcc.min}..{toolkit.gcc.max} is empty")
    if toolkit.driver.cuda > toolkit.release:
        raise _fail(row, f"driver.cuda = {toolkit.driver.cuda} is newer than release {toolkit.release}")


def _hosts(table: Table, toolkit: Toolkit) -> None:
    row = f"toolkit.{toolkit.name}"
    machines = {target.machine for target in table.targets.values()}
    for provider, names in toolkit.hosts.items():
        for machine in names:
            if machine not in machines:
                raise _fail(row, f"hosts.{provider} names {machine!r}; targets have {', '.join(sorted(machines))}")
    if set(toolkit.locks) != set(toolkit.hosts["pip"]):
        raise _fail(row, f"locks are for {sorted(toolkit.locks)}, but hosts.pip says {sorted(toolkit.hosts['pip'])}")


def _target(table: Table, target: Target) -> None:
    row = f"target.{target.name}"
    if target.toolkit not in table.toolkits:
        raise _fail(row, f"toolkit {target.toolkit!r} has no row; there are {', '.join(table.toolkits)}")
    for kind, key, names in (("cubin", "cubins", target.cubins), ("ptx", "ptx", target.ptx)):
        for name in names:
            if name not in table.codes or table.codes[name].kind != kind:
                raise _fail(row, f"{key}: {name!r} has no row [{kind}.{name}]")
    known = table.default_codes(target, table.toolkits[target.toolkit])
    if not any(code.kind == "cubin" for code in known):
        raise _fail(row, f"cubins = {list(target.cubins)!r}: toolkit {target.toolkit} makes none of them")


def _distinct(key: str, rows: Iterable[tuple[str, str]]) -> None:
    first: dict[str, str] = {}
    for row, value in rows:
        if value in first:
            raise _fail(row, f"{key} = {value!r} is that of [{first[value]}] too")
        first[value] = row


def _locks(table: Table) -> None:
    rows = [(f"toolkit.{t.name}", path) for t in table.toolkits.values() for path in t.locks.values()]
    _distinct("locks", [*rows, *(("tools", path) for path in table.tools.locks.values())])


def _ptx(table: Table) -> None:
    """An architecture-specific feature never stands in a PTX row: newer GPUs do not have it."""
    portable = {f for c in table.codes.values() if c.kind == "cubin" and c.number.isdigit() for f in c.features}
    for code in table.codes.values():
        if code.kind == "ptx" and (alien := set(code.features) - portable):
            raise _fail(f"ptx.{code.name}", f"features: {min(alien)!r} is in no cubin row that newer GPUs can run")


def _features(table: Table) -> None:
    """A row of a feature that no code has is a slip of the pen."""
    for name in table.since:
        if name not in table.features():
            raise _fail(f"feature.{name}", "no cubin or PTX row has this feature")


def _gcc(table: Table) -> None:
    """A GCC that the toolkit's nvcc refuses is no row, nor is an environment without a GCC."""
    for name, gcc in table.gcc.items():
        if name not in table.toolkits:
            raise _fail(f"gcc.{name}", f"{name!r} has no row [toolkit.{name}]")
        span = table.toolkits[name].gcc
        if not span.accepts(gcc.major):
            raise _fail(f"gcc.{name}", f"major = {gcc.major}, but the nvcc of {name} takes {span.min} to {span.max}")
    for toolkit in table.toolkits.values():
        claimed = [name for name in ("conda", "nix") if toolkit.hosts[name]]
        if claimed and toolkit.name not in table.gcc:
            raise _fail(
                f"toolkit.{toolkit.name}", f"hosts.{claimed[0]} names machines, and [gcc.{toolkit.name}] is missing"
            )
