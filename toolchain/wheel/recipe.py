# SPDX-License-Identifier: MIT
"""The recipe of a wheel: all that has to be known to make it again. No builder, no clock, no path is in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from toolchain import source
from toolchain.files import digest_of
from toolchain.locking import conda
from toolchain.providers import host, machine_of
from toolchain.request import Request
from toolchain.targets import ROOT, Table

Recipe = dict[str, Any]
ENVIRONMENTS = {"conda": conda.LOCK, "nix": "flake.lock"}  # their whole lock


def settings(request: Request) -> dict[str, str]:
    """What the build backend is asked for; sets that are the default ones are left to it, and so to the label."""
    given = {
        "target": request.target.name,
        "toolkit": request.toolkit.name,
        "provider": request.provider,
        "debug": "yes" if request.debug else "no",
    }
    if not request.is_default_codes:
        given["archs"] = ",".join(code.name for code in request.codes)
    if not request.is_default_ops:
        given["ops"] = ",".join(request.ops)
    return given


def locks(table: Table, request: Request) -> dict[str, str]:
    """lock file -> its sha256, of those that this build's tools came from; none for a system's compilers."""
    machine = machine_of(table)
    if request.provider in ENVIRONMENTS:
        paths = [ENVIRONMENTS[request.provider]]
    else:
        paths = [table.tools.locks[machine]]
        paths += [request.toolkit.locks[machine]] if request.provider == "pip" else []
    return {path: hashlib.sha256((ROOT / path).read_bytes()).hexdigest() for path in sorted(paths)}


def _host_compiler(table: Table, request: Request) -> dict[str, str]:
    """zig is one program of one digest; a system's GCC is known by what CMake says of it, as `front`."""
    if request.target.host[request.provider] != "zig":
        return {"driver": request.target.host[request.provider]}
    zig = host.find_zig(table) or Path()
    return {
        "driver": host.pin(table, "ziglang").replace("==", " "),
        "sha256": digest_of([zig]),
        "for": f"{request.target.zig}.{request.target.glibc}",
    }


def make(table: Table, request: Request, members: dict[str, bytes]) -> Recipe:
    """The recipe behind these members; takes CMake's part of it out of them."""
    settled = json.loads(members.pop("kernelwright/recipe.json", b"{}"))
    made = source.state(ROOT)
    return {
        "build": settings(request),
        "built_on": machine_of(table),
        "source": {"commit": made.commit, "dirty": made.dirty, "sha256": made.sha256},
        "inputs": source.file_digests(ROOT),
        "locks": locks(table, request),
        "device_compiler": json.loads(members["kernelwright/manifest.json"])["compiler"],
        "host_compiler": {**_host_compiler(table, request), **settled},
    }
