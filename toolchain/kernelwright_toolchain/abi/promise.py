# SPDX-License-Identifier: MIT
"""The C ABI as it was recorded, and what a program that was compiled against it would miss in the headers of now."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain.abi.read import Abi, header_directories, read_headers
from kernelwright_toolchain.errors import GateError, TableError
from kernelwright_toolchain.manifest import base_version

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORD = Path("csrc/include/abi.json")
NUMBER = Path("csrc/core/version.cpp")
COMMAND = "python -m toolchain abi --write"


@dataclass(frozen=True)
class Promise:
    """`number` is what kw_abi() returns. Names of arguments are no part of it; they may be better ones tomorrow."""

    version: str
    number: int
    functions: Mapping[str, str]
    constants: Mapping[str, int]
    structs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Changes:
    """In words: what programs would miss, and what is new to them."""

    broken: tuple[str, ...]
    added: tuple[str, ...]


def _functions(abi: Abi) -> dict[str, str]:
    return {
        one.name: f"{one.returns} ({', '.join(kind for _, kind in one.arguments) or 'void'})"
        for one in abi.functions.values()
    }


def now(root: Path) -> Promise:
    """What the headers and the library of this tree say."""
    abi = read_headers(*header_directories(root))
    found = re.search(r"kw_abi\(void\) \{ return (\d+); \}", (root / NUMBER).read_text(encoding="utf-8"))
    if found is None:
        raise TableError(f"{NUMBER} has no `kw_abi(void) {{ return N; }}`, where the number of the ABI is read")
    structs = {name: "; ".join(f"{kind} {member}" for member, kind in abi.structs[name]) for name in abi.structs}
    return Promise(base_version(root), int(found[1]), _functions(abi), abi.constants, structs)


def recorded(root: Path) -> tuple[Promise, ...]:
    """The version that was released last, if there is one, and the one that is being made."""
    try:
        return tuple(Promise(**row) for row in json.loads((root / RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise TableError(
            f"{RECORD} cannot be read ({error}); git has the last one, and `{COMMAND}` brings that up to date"
        ) from None


def text(root: Path) -> bytes:
    """The record as it should be: the last version of another number stays, so that no release is forgotten."""
    new = now(root)
    before = [one for one in recorded(root) if one.version != new.version][-1:]
    return (json.dumps([one.__dict__ for one in (*before, new)], indent=1, sort_keys=True) + "\n").encode()


def _said(promise: Promise) -> dict[str, str]:
    numbers = {name: str(value) for name, value in promise.constants.items()}
    return {**promise.functions, **numbers, **promise.structs}


def changes(old: Promise, new: Promise) -> Changes:
    was, is_ = _said(old), _said(new)
    broken = [f"{name}: was {was[name]}, is {is_.get(name, 'gone')}" for name in was if is_.get(name) != was[name]]
    return Changes(tuple(sorted(broken)), tuple(sorted(is_.keys() - was.keys())))


def check(root: Path) -> Changes:
    """What changed since it was recorded; GateError if that breaks programs and no number says so."""
    new = now(root)
    found = Changes((), ())
    for old in recorded(root):
        found = changes(old, new)
        if new.number < old.number:
            raise GateError(
                f"kw_abi() returns {new.number}, and {old.version} had {old.number}: no number is used again"
            )
        if found.broken and new.number == old.number:
            lines = "\n".join(f"  {line}" for line in found.broken)
            raise GateError(f"the C ABI {old.number} of {old.version} is not kept:\n{lines}\n{_cure(old, new)}")
    return found


def _cure(old: Promise, new: Promise) -> str:
    if old.version == new.version:
        return f"{old.version} is not released yet: if this is meant, record it by `{COMMAND}`"
    return (
        f"Keep it and add a new function beside it; or raise the number in {NUMBER} and ABI in "
        f"src/kernelwright/_library.py, and record it by `{COMMAND}`"
    )
