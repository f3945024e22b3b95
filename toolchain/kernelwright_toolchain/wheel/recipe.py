# SPDX-License-Identifier: MIT
"""The recipe of a wheel: all that decides its bytes, and nothing else; so it is the same wherever the wheel is made.

What is known of one build besides (commit, build machine, provider, the compilers' own files) goes beside the wheel.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from kernelwright_toolchain import source
from kernelwright_toolchain.files import digest_of
from kernelwright_toolchain.locking import conda
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import device_compiler, host, machine_of
from kernelwright_toolchain.request import DEFAULT_PROVIDER, Request, settings
from kernelwright_toolchain.targets import Table

Recipe = dict[str, Any]
ENVIRONMENTS = {"conda": conda.LOCK, "nix": "flake.lock"}  # their whole lock


def locks(table: Table, request: Request) -> dict[str, str]:
    """lock file -> its sha256, of those that the tools come from, on any build machine."""
    if request.provider in ENVIRONMENTS:
        paths = [ENVIRONMENTS[request.provider]]
    else:
        paths = [*table.tools.locks.values()]
        paths += request.toolkit.locks.values() if request.provider == DEFAULT_PROVIDER else []
    return {path: hashlib.sha256(project().data(path).read_bytes()).hexdigest() for path in sorted(paths)}


def _host_compiler(table: Table, request: Request) -> dict[str, str]:
    """zig by its release; a system's GCC is known by what CMake says of it, as `front`."""
    if request.target.host[request.provider] != "zig":
        return {"driver": request.target.host[request.provider]}
    return {
        "driver": host.pin(table, "ziglang").replace("==", " "),
        "for": f"{request.target.zig}.{request.target.glibc}",
    }


def make(table: Table, request: Request, members: dict[str, bytes]) -> Recipe:
    """The recipe behind these members; takes CMake's part of it out of them."""
    settled = json.loads(members.pop("kernelwright/recipe.json", b"{}"))
    inputs = source.file_digests(project().root)
    build = settings(request)
    if request.provider == DEFAULT_PROVIDER:  # whoever brings the locked compilers
        del build["provider"]
    return {
        "build": build,
        "source": {"sha256": source.digest(inputs)},
        "inputs": inputs,
        "locks": locks(table, request),
        "device_compiler": json.loads(members["kernelwright/manifest.json"])["compiler"],
        "host_compiler": {**_host_compiler(table, request), **settled},
    }


def circumstances(table: Table, request: Request) -> Recipe:
    """What is known of a build that is made here and now, and decides no byte; digests are of the files as they are.

    Files of one release differ by machine, and by who packed them.
    """
    here = source.state(project().root)
    compilers = {"device": device_compiler(request.provider, request.toolkit, table).examined()}
    if request.target.host[request.provider] == "zig" and (zig := host.find_zig(table)):
        compilers["host"] = digest_of([zig])
    return {
        "provider": request.provider,
        "built_on": machine_of(table),
        "commit": here.commit,
        "dirty": here.dirty,
        "compilers": compilers,
    }
