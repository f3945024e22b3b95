# SPDX-License-Identifier: MIT
"""An editable install: what was compiled lies in .kw/editable, Python files are links to the sources.

What cannot be a link is watched: on import a changed source is named, since what was compiled from it is stale.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from kernelwright_toolchain import stale
from kernelwright_toolchain.classic import source
from kernelwright_toolchain.wheel.record import record


def _linked(root: Path, place: Path, wheel: zipfile.ZipFile) -> set[str]:
    """Puts links where a member is a source as it is; the sources that are linked."""
    by_content: dict[str, list[str]] = {}
    for name, digest in source.digests(root).items():
        by_content.setdefault(digest, []).append(name)
    found = set()
    for info in wheel.infolist():
        if info.is_dir() or ".dist-info/" in info.filename:
            continue
        digest = hashlib.sha256(wheel.read(info)).hexdigest()
        same = [name for name in by_content.get(digest, []) if f"/{name}".endswith(f"/{info.filename}")]
        if same:
            (place / info.filename).unlink()
            (place / info.filename).symlink_to(root / same[0])
            found.add(same[0])
    return found


def members(made: Path, place: Path, root: Path, package: str) -> Mapping[str, bytes]:
    """Lays the wheel out at `place`; the members of the wheel that is installed in its stead."""
    shutil.rmtree(place, ignore_errors=True)
    with zipfile.ZipFile(made) as whole:
        whole.extractall(place)
        linked = _linked(root, place, whole)
        names = [name for name in whole.namelist() if ".dist-info/" not in name]
        found = {name: whole.read(name) for name in whole.namelist() if ".dist-info/" in name}
    tops = sorted({name.partition("/")[0].partition(".")[0] for name in names})
    inputs = [path.as_posix() for path in source.files(root) if path.suffix != ".md"]
    again = "pip install --no-build-isolation -e"
    looking = stale.watch(package, root, tops, [path for path in inputs if path not in linked], again)
    for name, data in looking.items():
        (place / name).write_bytes(data)
    own = next(name for name in found if name.endswith("/RECORD"))
    del found[own]
    found[f"_{package}.pth"] = f"{place}\nimport {next(iter(looking)).removesuffix('.py')}\n".encode()
    found[own] = record(found, own)
    return found
