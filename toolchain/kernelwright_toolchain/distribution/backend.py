# SPDX-License-Identifier: MIT
"""The build backend of the toolchain itself (PEP 517, PEP 660): nothing is fetched to make it.

The same files give the same bytes, by one interpreter's zlib: this wheel holds text alone, which installs as it is.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from kernelwright_toolchain.distribution import contents, metadata
from kernelwright_toolchain.errors import KwError
from kernelwright_toolchain.wheel import archive
from kernelwright_toolchain.wheel.metadata import entry_points, text
from kernelwright_toolchain.wheel.record import record

Settings = Mapping[str, "str | list[str]"]
TAG = "py3-none-any"
_DATE = 315_532_800  # 1980, as in the wheels


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def _written(directory: str, name: str, data: bytes) -> str:
    """Whole or not at all."""
    part = Path(directory) / f".{name}.part"
    part.write_bytes(data)
    part.replace(Path(directory) / name)
    return name


def _named(tree: Path) -> str:
    given = metadata.project(tree)
    return f"{given['name'].replace('-', '_')}-{given['version']}"


def _refused(error: KwError) -> NoReturn:
    print(f"error: {error}", file=sys.stderr)
    raise SystemExit(error.exit_code) from None


def _wheel(directory: str, tree: Path, members: dict[str, bytes]) -> str:
    name = _named(tree)
    info = f"{name}.dist-info"
    members |= {
        f"{info}/METADATA": text(metadata.project(tree), tree),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: {name}\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode(),
        f"{info}/entry_points.txt": entry_points(metadata.project(tree)),
        f"{info}/licenses/{contents.LICENCE}": contents.licence(tree),
    }
    members[f"{info}/RECORD"] = record(members, f"{info}/RECORD")
    return _written(directory, f"{name}-{TAG}.whl", archive.pack(members, _deflated))


def build_wheel(
    wheel_directory: str,
    config_settings: Settings | None = None,  # noqa: ARG001 - the hook's
    metadata_directory: str | None = None,  # noqa: ARG001 - the hook's
) -> str:
    try:
        return _wheel(wheel_directory, Path.cwd(), contents.package(Path.cwd()))
    except KwError as error:
        _refused(error)


def build_editable(
    wheel_directory: str,
    config_settings: Settings | None = None,  # noqa: ARG001 - the hook's
    metadata_directory: str | None = None,  # noqa: ARG001 - the hook's
) -> str:
    """A line that names this folder; the table and the locks are read where they lie."""
    tree = Path.cwd()
    return _wheel(wheel_directory, tree, {f"_{contents.PACKAGE}.pth": f"{tree}\n".encode()})


def build_sdist(sdist_directory: str, config_settings: Settings | None = None) -> str:  # noqa: ARG001 - the hook's
    tree = Path.cwd()
    name = _named(tree)
    try:
        members = {**contents.source(tree), "PKG-INFO": text(metadata.project(tree), tree)}
    except KwError as error:
        _refused(error)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as made:
        for member in sorted(members):
            info = tarfile.TarInfo(f"{name}/{member}")
            info.size, info.mtime, info.mode = len(members[member]), _DATE, 0o644
            made.addfile(info, io.BytesIO(members[member]))
    return _written(sdist_directory, f"{name}.tar.gz", gzip.compress(packed.getvalue(), 9, mtime=0))
