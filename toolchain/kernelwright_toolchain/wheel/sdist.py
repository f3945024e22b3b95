# SPDX-License-Identifier: MIT
"""Turns the sdist that scikit-build-core made into the one that is kept: with a note of its commit, in exact bytes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from kernelwright_toolchain import source
from kernelwright_toolchain.project import project
from kernelwright_toolchain.wheel import archive

_DATE = 315_532_800  # 1980, as in the wheels


def finish(built: Path, directory: Path) -> Path:
    """Writes the final sdist into the directory, whole or not at all."""
    with tarfile.open(built) as old:
        files = {member.name: (member, old.extractfile(member)) for member in old.getmembers() if member.isfile()}
        contents = {name: (member.mode, data.read()) for name, (member, data) in files.items() if data}
    top = built.name.removesuffix(".tar.gz")
    contents[f"{top}/{source.NOTE}"] = (0o644, source.state(project().root).note())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for name in sorted(contents):
            mode, data = contents[name]
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(data), _DATE, 0o755 if mode & 0o100 else 0o644
            new.addfile(info, io.BytesIO(data))
    path = directory / built.name
    part = directory / f".{path.name}.part"
    part.write_bytes(archive.gzipped(packed.getvalue()))
    part.replace(path)
    return path
