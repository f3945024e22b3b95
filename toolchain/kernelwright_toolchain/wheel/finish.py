# SPDX-License-Identifier: MIT
"""Turns the wheel that scikit-build-core made into the one that is kept: label, tag, RECORD, exact bytes."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from kernelwright_toolchain import families, source, stale
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.request import Request, label
from kernelwright_toolchain.targets import Table
from kernelwright_toolchain.wheel import archive, gates, recipe, sbom, shares, statement
from kernelwright_toolchain.wheel.elf import parse
from kernelwright_toolchain.wheel.record import record
from kernelwright_toolchain.wheel.shares import LIBRARY
from kernelwright_toolchain.wheel.tag import check_floor, platform_tag

_COMPILED = ("csrc/", "cmake/", "CMakeLists.txt", "targets.toml")  # what images and library are made from


def version_of(base: str, request: Request) -> str:
    """The wheel's version: plain for the default set of a target, labelled for any other."""
    text = label(request)
    return f"{base}+{text}" if text else base


def _tag(members: dict[str, bytes], request: Request, floor_is_given: bool) -> str:
    if LIBRARY not in members:
        raise GateError(f"the built wheel has no {LIBRARY}; it has {', '.join(sorted(members))}")
    needs = parse(members[LIBRARY])
    if floor_is_given:
        check_floor(needs, request.target, LIBRARY)
    return platform_tag(needs, request.target, LIBRARY)


def _sealed(members: dict[str, bytes], table: Table, request: Request, info: str, version: str) -> None:
    """Adds what the wheel says of itself; each document covers all that were there before it."""
    made = recipe.make(table, request, members)
    name = info.partition("-")[0]
    members[f"{info}sboms/{name}.cdx.json"] = sbom.sbom(name, version, members, made)
    members[f"{info}{statement.NAME}"] = statement.of_members(members, made)
    members[f"{info}RECORD"] = record(members, f"{info}RECORD")


def _watched(package: str) -> dict[str, bytes]:
    """What tells, on import, that a source of the compiled files changed; Python's files are the sources themselves.

    Its .pth is read after scikit-build-core's, whose finder would otherwise be asked first.
    """
    root = project().root
    inputs = [name for name in source.file_digests(root) if name.startswith(_COMPILED)]
    looking = stale.watch(package, root, [package], inputs, "pip install -e")
    module = next(iter(looking)).removesuffix(".py")
    return {**looking, f"{module}.pth": f"import {module}\n".encode()}


def finish(
    built: Path, directory: Path, table: Table, request: Request, *, floor_is_given: bool, editable: bool = False
) -> Path:
    """Writes the final wheel into the directory, whole or not at all.

    `floor_is_given`: the host compiler was told the target's glibc, so needing a newer one is an error.
    """
    with zipfile.ZipFile(built) as wheel:
        old = {info.filename: wheel.read(info) for info in wheel.infolist() if not info.is_dir()}
    distribution, base = built.name.split("-")[:2]
    version = version_of(base, request)
    before, after = f"{distribution}-{base}.dist-info/", f"{distribution}-{version}.dist-info/"
    members = {re.sub(f"^{re.escape(before)}", after, name): data for name, data in old.items()}
    tag = f"py3-none-{_tag(members, request, floor_is_given)}"
    metadata = members[f"{after}METADATA"].decode()
    members[f"{after}METADATA"] = re.sub(r"(?m)^Version: .*$", f"Version: {version}", metadata, count=1).encode()
    members[f"{after}WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: kernelwright-toolchain {base}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    del members[f"{after}RECORD"]
    sizes = shares.sizes_of(members.pop(f"kernelwright/{shares.OBJECTS}", b"{}"))
    members |= _watched(distribution) if editable else {}
    _sealed(members, table, request, after, version)
    path = directory / f"{distribution}-{version}-{tag}.whl"
    gates.inspect(members, path.name, tag, request, with_paths=editable)
    packed = archive.pack(members, archive.compressor(host.libdeflate(request.provider)))
    limits = families.limits(project().root, table, request.target)
    gates.size(path.name, packed, shares.shares(packed, sizes, limits, project().root), request)
    part = directory / f".{path.name}.part"
    part.write_bytes(packed)
    part.replace(path)
    return path
