# SPDX-License-Identifier: MIT
"""The wheel of a device-only package: images, launcher, operators, and what it says of itself."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain import providers
from kernelwright_toolchain.building.budgets import compressor
from kernelwright_toolchain.device.build import Built, build_images
from kernelwright_toolchain.errors import CompileError, GateError
from kernelwright_toolchain.packages import c, gates, python, stage, table
from kernelwright_toolchain.packages.table import Kernel
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.request import Request, find_target, resolve
from kernelwright_toolchain.settings import Settings
from kernelwright_toolchain.targets import Table
from kernelwright_toolchain.targets.read import toml
from kernelwright_toolchain.version import VERSION
from kernelwright_toolchain.wheel import archive, statement
from kernelwright_toolchain.wheel.metadata import known, text
from kernelwright_toolchain.wheel.record import record

PREDICATE = "urn:kernelwright:package:1"
FLAGS = ("-std=gnu11", "-O2", "-g0", "-fPIC", "-fexceptions", "-fvisibility=hidden", "-Wall", "-Werror", "-shared")
LINKED = ("-Wl,-s", "-Wl,--build-id=none", "-Wl,-z,relro,-z,now", "-ldl", "-lpthread")


@dataclass(frozen=True)
class Made:
    wheel: Path
    sha256: str
    built: Built
    request: Request


def kernels_of(settings: Settings) -> list[Kernel]:
    return [table.read(name, raw) for name, raw in sorted(settings.kernels.items())]


def request_of(settings: Settings, rows: Table, place: Path, asked: Mapping[str, str | None]) -> Request:
    """What is asked for now, else what the project's table says, else the toolchain's own defaults."""
    default = find_target(rows).name
    target = asked.get("target") or (
        settings.targets[0] if settings.targets and default not in settings.targets else default
    )
    toolkit = asked.get("toolkit") or settings.toolkit or rows.targets[target].toolkit
    if toolkit in rows.toolkits:
        providers.check_host("pip", rows.toolkits[toolkit], rows)
    archs = asked.get("archs") or settings.archs_of(target)
    return resolve(rows, target=target, toolkit=toolkit, archs=archs, root=place)


def label(settings: Settings, rows: Table, request: Request, place: Path) -> str:
    """ "" for what the project's own table asks for; another set has its toolkit and codes in its version."""
    own = request_of(settings, rows, place, {"target": request.target.name})
    if (own.toolkit, own.codes) == (request.toolkit, request.codes):
        return ""
    return ".".join([request.toolkit.name, *(code.name.replace("_", "") for code in request.codes)])


def _linked(settings: Settings, kernels: Sequence[Kernel], built: Built, request: Request, rows: Table) -> bytes:
    """The launcher with the images in it. Everything lies in one folder and is named from there: no path gets in."""
    place = project().state / "package" / request.target.name
    place.mkdir(parents=True, exist_ok=True)
    images = {}
    for image in built.images:
        if not image.served_by:
            name = f"{image.op}.{image.code}"
            (place / name).write_bytes(image.data)
            images[image.op, image.code] = name
    codes = [code for code in request.codes if any(name == code.name for _, name in images)]
    (place / "launcher.c").write_text(c.source(settings.package, kernels, images, codes), encoding="utf-8")
    zig = host.tools(rows, "pip").zig
    cache = str(project().state / "cache" / "zig")
    target = f"{request.target.zig}.{request.target.glibc}"
    command = [str(zig), "cc", "-target", target, *FLAGS, "-I.", "launcher.c", "-o", "launcher.so", *LINKED]
    env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(
            f"the launcher does not compile; it holds the C expressions of the tables:\n{done.stderr[-4000:]}"
        )
    return (place / "launcher.so").read_bytes()


def _manifest(built: Built, request: Request) -> bytes:
    rows = [
        {
            "source": image.op, "code": image.code, "sha256": image.sha256, "size": len(image.data),
            "registers": image.registers, "spills": image.spilled, "served_by": image.served_by or None,
        }
        for image in built.images
    ]  # fmt: skip
    made = {"schema": 1, "toolkit": request.toolkit.name, "target": request.target.name, "images": rows}
    return (json.dumps(made, indent=1, sort_keys=True) + "\n").encode()


def _own_python(root: Path, package: str) -> dict[str, bytes]:
    """What the project has in src/<package>: it is packed too, and its __init__.py takes the made one's place."""
    folder = root / "src" / package
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {f"{package}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in files}


def recipe(settings: Settings, kernels: Sequence[Kernel], request: Request, rows: Table) -> dict[str, object]:
    """All that decides the bytes."""
    files = ["pyproject.toml", *(path.as_posix() for path in stage.sources(settings.root, kernels))]
    locks = [*rows.tools.locks.values(), *request.toolkit.locks.values()]
    digest = {name: hashlib.sha256((settings.root / name).read_bytes()).hexdigest() for name in files}
    return {
        "toolchain": VERSION,
        "build": {
            "target": request.target.name, "toolkit": request.toolkit.name,
            "archs": ",".join(code.name for code in request.codes),
        },
        "inputs": digest,
        "locks": {name: hashlib.sha256(project().data(name).read_bytes()).hexdigest() for name in sorted(locks)},
    }  # fmt: skip


def members_of(settings: Settings, request: Request, rows: Table, built: Built, version: str) -> dict[str, bytes]:
    kernels, package = kernels_of(settings), settings.package
    library = _linked(settings, kernels, built, request, rows)
    gates.library(library, f"lib{package}.so", package, request.target)
    path = settings.root / "pyproject.toml"
    about = {**known(toml(path.read_text(encoding="utf-8"), str(path))["project"], path), "version": version}
    members = {
        f"{package}/__init__.py": python.init(package, settings.about, kernels).encode(),
        f"{package}/__main__.py": python.checks(package, kernels).encode(),
        f"{package}/_operators.py": python.operators(package, kernels).encode(),
        f"{package}/include/{package}.h": c.header(package, kernels).encode(),
        f"{package}/lib{package}.so": library,
        f"{package}/kernels.json": _manifest(built, request),
        **_own_python(settings.root, package),
    }
    for name, data in members.items():
        if name.endswith(".py"):
            compile(data, name, "exec")  # a Python expression of a table that is none is refused here
    gates.names_no_machine(members, settings.root)
    info = f"{package}-{version}.dist-info"
    tag = f"py3-none-{request.target.platform_tag}"
    wheel = f"Wheel-Version: 1.0\nGenerator: kernelwright-toolchain {VERSION}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    members |= {f"{info}/METADATA": text(about, settings.root), f"{info}/WHEEL": wheel.encode()}
    made = recipe(settings, kernels, request, rows)
    subjects = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    members[f"{info}/{statement.NAME}"] = statement.statement(subjects, made, PREDICATE)
    members[f"{info}/RECORD"] = record(members, f"{info}/RECORD")
    return members


def build(settings: Settings, rows: Table, out: Path, asked: Mapping[str, str | None], jobs: int | None = None) -> Made:
    """One wheel into the directory."""
    kernels = kernels_of(settings)
    place = stage.lay_out(settings.root, project().state / "stage", settings.package, kernels)
    request = request_of(settings, rows, place, asked)
    with stage.in_their_words(settings.package, kernels):
        compiler = providers.device_compiler("pip", request.toolkit, rows)
        print(f"device compiler: {compiler}", file=sys.stderr, flush=True)
        built = build_images(request, compiler, root=place, jobs=jobs)
        gates.kernels(built, kernels)
    local = label(settings, rows, request, place)
    version = f"{settings.version}+{local}" if local else settings.version
    members = members_of(settings, request, rows, built, version)
    name = f"{settings.package}-{version}-py3-none-{request.target.platform_tag}.whl"
    packed = archive.pack(members, compressor(host.tools(rows, "pip"), request))
    if not packed:
        raise GateError(f"{name} is empty")
    out.mkdir(parents=True, exist_ok=True)
    part = out / f".{name}.part"
    part.write_bytes(packed)
    part.replace(out / name)
    return Made(out / name, hashlib.sha256(packed).hexdigest(), built, request)
