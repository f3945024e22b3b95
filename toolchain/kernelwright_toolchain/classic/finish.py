# SPDX-License-Identifier: MIT
"""Turns the wheel that a project's backend made into exact bytes, with a tag, a label and how it was made."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from kernelwright_toolchain import providers
from kernelwright_toolchain.building.budgets import packer
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.packages import gates
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.targets import Target, Version, load
from kernelwright_toolchain.version import VERSION
from kernelwright_toolchain.wheel import archive, statement
from kernelwright_toolchain.wheel.elf import parse
from kernelwright_toolchain.wheel.record import record

PREDICATE = "urn:kernelwright:classic:1"
LABEL = "inexact"  # PyPI takes no wheel with a label: what is not proven is not published
_LEAK = re.compile(rb"/tmp/tmpxft_|/kwt-[a-z0-9_]{8}/")


def _platform(members: Mapping[str, bytes], target: Target) -> str:
    """The oldest C library that every library in it takes; "any" where there is none."""
    floors = [parse(data).glibc for name, data in members.items() if _is_library(name, data)]
    if not floors:
        return "any"
    floor = max(*floors, Version.parse("2.17"), key=lambda version: version.parts)
    return f"manylinux_{floor.parts[0]}_{floor.parts[1]}_{target.machine}"


def _is_library(name: str, data: bytes) -> bool:
    return re.search(r"\.so(\.\d+)*$", name) is not None and data[:4] == b"\x7fELF"


def _leaks(members: Mapping[str, bytes]) -> None:
    for name, data in members.items():
        if found := _LEAK.search(data):
            raise GateError(f"{name} holds {found[0].decode()}…, a temporary file's name of this build")


def finish(built: Path, out: Path, target: Target, recipe: Mapping[str, object], root: Path) -> Path:
    with zipfile.ZipFile(built) as wheel:
        old = {info.filename: wheel.read(info) for info in wheel.infolist() if not info.is_dir()}
    name, base, *tags = built.name.removesuffix(".whl").split("-")
    exact = not recipe["inexact"]
    version = base if exact else f"{base}{'.' if '+' in base else '+'}{LABEL}"
    before, after = f"{name}-{base}.dist-info/", f"{name}-{version}.dist-info/"
    members = {re.sub(f"^{re.escape(before)}", after, member): data for member, data in old.items()}
    members.pop(f"{after}RECORD")
    platform = _platform(members, target)
    full = "-".join([*tags[:-1], platform if tags[-1].startswith("linux") else tags[-1]])
    said = members[f"{after}WHEEL"].decode()
    tag_lines = "".join(f"Tag: {full}\n")
    members[f"{after}WHEEL"] = (re.sub(r"(?m)^(Tag|Generator): .*\n", "", said).rstrip("\n") + "\n").encode()
    members[f"{after}WHEEL"] += f"Generator: kernelwright-toolchain {VERSION}\n{tag_lines}".encode()
    metadata = members[f"{after}METADATA"].decode()
    members[f"{after}METADATA"] = re.sub(r"(?m)^Version: .*$", f"Version: {version}", metadata, count=1).encode()
    if exact:
        gates.names_no_machine(members, root)
        _leaks(members)
    subjects = {member: hashlib.sha256(data).hexdigest() for member, data in members.items()}
    members[f"{after}{statement.NAME}"] = statement.statement(subjects, dict(recipe), PREDICATE)
    members[f"{after}RECORD"] = record(members, f"{after}RECORD")
    providers.machine_of(rows := load())
    packed = archive.pack(members, packer(host.tools(rows, "pip"), None))
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}-{version}-{full}.whl"
    part = out / f".{path.name}.part"
    part.write_bytes(packed)
    part.replace(path)
    return path
