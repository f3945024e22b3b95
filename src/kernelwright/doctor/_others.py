# SPDX-License-Identifier: MIT
"""Causes that other packages ship, found by the entry points of their metadata. One that fails is told and left out."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.doctor._cause import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "kernelwright.causes"
_CODE = re.compile(r"(?!KW-)[A-Z][A-Z0-9]{1,15}-\d{3,4}")


@dataclass(frozen=True)
class Others:
    """`modules` are those whose causes were taken; `problems` says of the others why not."""

    causes: dict[str, Cause]
    modules: tuple[Any, ...]
    problems: tuple[str, ...]


def _wrong(cause: object, known: dict[str, Cause]) -> str:
    """Why a record cannot be taken; "" where it can."""
    if not isinstance(cause, Cause):
        return f"{cause!r} is not a Cause of kernelwright.doctor.api"
    if not _CODE.fullmatch(cause.code):
        return f"{cause.code!r} is no code: a name of capitals and digits of its own, a hyphen, three digits"
    if cause.code in known:
        return f"{cause.code} is taken already"
    try:
        for sign in (*cause.signs, *cause.needs, *cause.without, *cause.unless):
            sign.pattern.search("")
    except re.error as error:
        return f"a sign of {cause.code} is no regular expression ({error})"
    return ""


def _of_entry(entry: importlib.metadata.EntryPoint, known: dict[str, Cause]) -> Iterator[Cause | str]:
    try:
        module = entry.load()
        records = tuple(module.CAUSES)
    except Exception as error:  # noqa: BLE001 - somebody else's package may fail in any way
        yield f"{entry.value} could not be loaded ({type(error).__name__}: {error})"
        return
    for cause in records:
        wrong = _wrong(cause, known)
        yield wrong or cause


@cache
def others() -> Others:
    """Read once; the packages are imported for it, which only `explain` and `causes` do."""
    causes: dict[str, Cause] = {}
    modules, problems = [], []
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
        taken = 0
        for found in _of_entry(entry, causes):
            if isinstance(found, str):
                problems.append(f"causes of {entry.name}: {found}")
            else:
                causes[found.code] = found
                taken += 1
        if taken:
            modules.append(entry.load())
    return Others(causes, tuple(modules), tuple(problems))
