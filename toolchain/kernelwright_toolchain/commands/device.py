# SPDX-License-Identifier: MIT
"""Compiles device sources to images, with the files that describe them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain import abi, manifest
from kernelwright_toolchain.device import build_images
from kernelwright_toolchain.files import PART, write_if_changed
from kernelwright_toolchain.project import project
from kernelwright_toolchain.request import DEFAULT_PROVIDER, find_target, resolve
from kernelwright_toolchain.targets import load

if TYPE_CHECKING:
    import argparse

    from kernelwright_toolchain.device import Built, DeviceCompiler
    from kernelwright_toolchain.request import Request
    from kernelwright_toolchain.targets import Table

SUFFIXES = (".cubin", ".ptx", ".h")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="what to fill")
    add("--target", help="a target of targets.toml; default: this machine's")
    add("--toolkit", help="a toolkit of targets.toml; default: the target's")
    add("--archs", help='such as "89;90": cubins by number, PTX by name; default: the target\'s set')
    add("--ops", help="such as a,b; default: all")
    add("--provider", default=DEFAULT_PROVIDER, help="pip (default), conda, nix, system, locked, auto")
    add("--debug", action="store_true", help="with line tables; labelled, never to be shipped")
    add("--label", help="local version label; default: what the request deserves")
    add("--cache", type=Path, metavar="DIR", help="default: KERNELWRIGHT_CACHE, else .kw/cache")
    add("-j", dest="jobs", type=int, metavar="N", help="compilers at once, at most; default: CPUs, memory allowing")


def run(arguments: argparse.Namespace) -> int:
    from kernelwright_toolchain.providers import device_compiler, settle

    table = load()
    target = find_target(table, arguments.target)
    provider, toolkit = settle(table, arguments.provider, arguments.toolkit, target.toolkit)
    request = resolve(
        table,
        target=target.name,
        toolkit=toolkit,
        archs=arguments.archs,
        ops=arguments.ops,
        provider=provider,
        debug=arguments.debug,
    )
    compiler = device_compiler(provider, request.toolkit, table)
    built = build_images(request, compiler, cache_at=arguments.cache, jobs=arguments.jobs)
    write_outputs(arguments.out, table, request, compiler, built, given_label=arguments.label)
    count = len(built.images)
    cached = sum(image.cached for image in built.images)
    files = len(manifest.packed(built.images))
    left_out = f", {count - files} left out for equal ones" if files < count else ""
    said = f"{files} image{'s' if files > 1 else ''} in {arguments.out}, {cached} from the cache, {built.seconds:.1f} s"
    print(said + left_out, file=sys.stderr)
    return 0


def write_outputs(
    out: Path,
    table: Table,
    request: Request,
    compiler: DeviceCompiler,
    built: Built,
    *,
    root: Path | None = None,
    given_label: str | None = None,
) -> None:
    """Fills `out`; what an earlier request left there goes."""
    root = root or project().root
    version = manifest.build_version(root, request, given_label)
    headers = abi.read_headers(*abi.header_directories(root))
    files = {manifest.image_path(image, request): image.data for image in manifest.packed(built.images)}
    files |= {
        "manifest.json": manifest.manifest(request, compiler, version, built.images),
        "targets.json": manifest.targets_json(table),
        "signatures.json": abi.signatures(headers),
        "include/kernelwright/kernelwright.h": abi.umbrella(headers),
        "kw_images.inc": manifest.images_inc(request, table, version, built.images),
        "report.json": manifest.report(built, request),
    }
    for name, data in files.items():
        write_if_changed(out / name, data)
    _sweep(out, {*files, *(f"include/kernelwright/{name}" for name in headers.headers)})


def _sweep(out: Path, mine: set[str]) -> None:
    """Removes what an earlier request or tree left, and what a killed writer left half: all of it would be packed."""
    for path in [*(out / "kernels").glob("*/*"), *(out / "include").glob("*/*"), *out.rglob(f"{PART}*")]:
        kept = path.suffix not in SUFFIXES and not path.name.startswith(PART)
        if path.is_file() and not kept and path.relative_to(out).as_posix() not in mine:
            path.unlink()
    for directory in (out / "kernels").glob("*"):  # an operator without kernels makes no such folder
        if not any(directory.iterdir()):
            directory.rmdir()
