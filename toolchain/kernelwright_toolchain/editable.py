# SPDX-License-Identifier: MIT
"""An editable install: what was compiled lies in .kw/editable, Python files are links to the sources.

What cannot be a link is watched: on import a changed source is named, since what was compiled from it is stale.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from kernelwright_toolchain.classic import source
from kernelwright_toolchain.wheel.record import record

_TEMPLATE = Path(__file__).with_name("stale.py.in")


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


def _watch(package: str, root: Path, place: Path, tops: list[str], linked: set[str]) -> str:
    """Writes the module that looks, beside what is imported; its name."""
    name = f"_kwt_stale_{package}"
    inputs = {}
    for path in source.files(root):
        if path.as_posix() not in linked and path.suffix != ".md":
            state = (root / path).stat()
            digest = hashlib.sha256((root / path).read_bytes()).hexdigest()
            inputs[path.as_posix()] = (state.st_size, state.st_mtime_ns, digest)
    (place / f"{name}.json").write_text(json.dumps({"root": str(root), "inputs": inputs}), encoding="utf-8")
    text = _TEMPLATE.read_text(encoding="utf-8")
    for key, value in {"package": package, "tops": repr(tuple(tops)), "inputs": f"{name}.json"}.items():
        text = text.replace(f"@{key}@", value)
    (place / f"{name}.py").write_text(text, encoding="utf-8")
    return name


def members(made: Path, place: Path, root: Path, package: str) -> Mapping[str, bytes]:
    """Lays the wheel out at `place`; the members of the wheel that is installed in its stead."""
    shutil.rmtree(place, ignore_errors=True)
    with zipfile.ZipFile(made) as whole:
        whole.extractall(place)
        linked = _linked(root, place, whole)
        names = [name for name in whole.namelist() if ".dist-info/" not in name]
        found = {name: whole.read(name) for name in whole.namelist() if ".dist-info/" in name}
    tops = sorted({name.partition("/")[0].partition(".")[0] for name in names})
    watch = _watch(package, root, place, tops, linked)
    own = next(name for name in found if name.endswith("/RECORD"))
    del found[own]
    found[f"_{package}.pth"] = f"{place}\nimport {watch}\n".encode()
    found[own] = record(found, own)
    return found
