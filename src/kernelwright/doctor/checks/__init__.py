# SPDX-License-Identifier: MIT
"""The checks, one file an area. Whatever is a Check in these files runs; nothing else lists them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Check, Finding, Grade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.doctor.machine._machine import Machine


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, in the order of the codes."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, Check)}
    return tuple(sorted(found, key=lambda one: (one.code, one.look.__name__)))


def examine(machine: Machine, checks: Sequence[Check] | None = None) -> list[Finding]:
    """What the checks find, all of them by default. One that fails itself is told as that: no report may end early."""
    findings = []
    for one in all_checks() if checks is None else checks:
        try:
            seen = one.look(machine)
        except Exception as error:  # noqa: BLE001 - a machine nobody thought of must not keep the others from running
            findings.append(Finding(one.code, Grade.UNKNOWN, f"{type(error).__name__}: {error}"))
            continue
        if seen:
            findings.append(Finding(one.code, one.grade, *((seen,) if isinstance(seen, str) else seen)))
    return findings
