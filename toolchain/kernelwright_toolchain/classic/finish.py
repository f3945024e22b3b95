# SPDX-License-Identifier: MIT
"""Turns the wheel that a project's backend made into exact bytes, with a tag, a label and how it was made."""

from __future__ import annotations

import hashlib
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelwright_toolchain import providers
from kernelwright_toolchain.building.budgets import packer
from kernelwright_toolchain.classic import gates
from kernelwright_toolchain.locking.wanted import lock_of
from kernelwright_toolchain.packages.gates import names_no_machine
from kernelwright_toolchain.providers import host, pip
from kernelwright_toolchain.targets import Target, Version, load
from kernelwright_toolchain.version import VERSION
from kernelwright_toolchain.wheel import archive, statement
from kernelwright_toolchain.wheel.elf import Needs, parse
from kernelwright_toolchain.wheel.gates import POLICY_LOCK, policies
from kernelwright_toolchain.wheel.record import record

PREDICATE = "urn:kernelwright:classic:1"
_OLDEST = Version.parse("2.17")  # what an older policy allowed, no Python that kwt serves asks for
LABEL = "inexact"  # PyPI takes no wheel with a label: what is not proven is not published


def policy(needs: Sequence[Needs], machine: str) -> str:
    """The oldest manylinux of auditwheel's table that has every version they ask of glibc, libstdc++ and libgcc."""
    pip.install(lock_of(POLICY_LOCK))
    asked = [version.partition("_") for one in needs for _, version in one.versions]
    known = {row["name"]: row["symbol_versions"].get(machine, {}) for row in policies() or ()}
    releases = {
        Version.parse(name.removeprefix("manylinux_").replace("_", ".")): name
        for name in known
        if name.startswith("manylinux_")
    }
    for release in sorted(release for release in releases if release >= _OLDEST):
        allowed = known[releases[release]]
        if allowed and all(family not in allowed or version in allowed[family] for family, _, version in asked):
            return f"{releases[release]}_{machine}"
    return f"linux_{machine}"


def _platform(members: Mapping[str, bytes], target: Target) -> str:
    """The oldest C library that every library in it takes; "any" where there is none.

    Where something is needed that not every Linux has, no such tag would be true.
    """
    if not gates.libraries(members):
        return "any"
    if odd := gates.aliens(members):
        print(
            f"tagged linux_{target.machine}, since it needs {', '.join(odd)}, which not every Linux has: PyPI takes no "
            "such wheel. Link that statically, or pack it by auditwheel",
            file=sys.stderr,
        )
        return f"linux_{target.machine}"
    return policy([parse(data) for data in gates.libraries(members).values()], target.machine)


def _release(recipe: Mapping[str, Any]) -> str:
    """The torch that it is for and no other, as in 2.13; "" for a wheel that fits every one."""
    said: Mapping[str, str] = recipe["torch"]
    return ".".join(said["release"].split(".")[:2]) if said["kind"] == "headers" else ""


def finish(built: Path, out: Path, target: Target, recipe: Mapping[str, Any], root: Path) -> Path:
    with zipfile.ZipFile(built) as wheel:
        old = {info.filename: wheel.read(info) for info in wheel.infolist() if not info.is_dir()}
    name, base, *tags = built.name.removesuffix(".whl").split("-")
    exact, release = not recipe["inexact"], _release(recipe)
    labels = [*([f"torch{release}"] if release else []), *([] if exact else [LABEL])]
    version = base + ("." if "+" in base else "+") * bool(labels) + ".".join(labels)
    before, after = f"{name}-{base}.dist-info/", f"{name}-{version}.dist-info/"
    members = {re.sub(f"^{re.escape(before)}", after, member): data for member, data in old.items()}
    members.pop(f"{after}RECORD")
    platform = _platform(members, target)
    full = "-".join([*tags[:-1], platform if tags[-1].startswith("linux") else tags[-1]])
    said = members[f"{after}WHEEL"].decode()
    tag_lines = "".join(f"Tag: {full}\n")
    members[f"{after}WHEEL"] = (re.sub(r"(?m)^(Tag|Generator): .*\n", "", said).rstrip("\n") + "\n").encode()
    members[f"{after}WHEEL"] += f"Generator: kernelwright-toolchain {VERSION}\n{tag_lines}".encode()
    metadata = re.sub(r"(?m)^Version: .*$", f"Version: {version}", members[f"{after}METADATA"].decode(), count=1)
    if release:
        metadata = re.sub(r"(?m)^(Version: .*\n)", rf"\1Requires-Dist: torch =={release}.*\n", metadata, count=1)
    members[f"{after}METADATA"] = metadata.encode()
    gates.check(members, recipe)
    if exact:
        names_no_machine(members, root)
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
