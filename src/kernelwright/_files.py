# SPDX-License-Identifier: MIT
"""The files of the installed package: where they are, and what its JSON files say."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import kernelwright
from kernelwright.errors import PackageIncomplete

LIBRARY = "lib/libkernelwright.so"
MANIFEST = "manifest.json"
SIGNATURES = "signatures.json"
TARGETS = "targets.json"

_SCHEMA = 1
_KEYS = {MANIFEST: ("version", "images"), SIGNATURES: ("functions", "constants"), TARGETS: ("codes", "toolkits")}
_FIX = (
    "Reinstall it (pip install --force-reinstall kernelwright); "
    "in a source tree, build and install it first (./kw build, or pip install -e .)."
)


def locate(relative: str) -> Path:
    """A file of the package. An editable install has two directories: the sources' and the built files'."""
    tried = [Path(entry) / relative for entry in kernelwright.__path__]
    for path in tried:
        if path.exists():
            return path
    places = ", nor ".join(map(str, tried))
    raise PackageIncomplete(f"kernelwright is not completely installed: there is no {places}. {_FIX}")


def whole_library() -> Path:
    """The library, if it is all there: to dlopen a file that was cut short ends the process by a signal."""
    path = locate(LIBRARY)
    try:
        with path.open("rb") as file:
            header, size = file.read(64), path.stat().st_size
    except OSError as error:
        raise PackageIncomplete(f"{path} cannot be read: {error}. {_FIX}") from error
    if len(header) == 64:
        # ELF, 64 bits: the section table is the last thing in the file; its place, size of an entry, number of them.
        place, entry, count = (*struct.unpack_from("=Q", header, 40), *struct.unpack_from("=HH", header, 58))
        if header.startswith(b"\x7fELF") and size >= place + entry * count:
            return path
    raise PackageIncomplete(f"{path} is cut short or no library: it has {size} bytes. {_FIX}")


def read(relative: str) -> dict[str, Any]:
    """One of the package's JSON files."""
    path = locate(relative)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PackageIncomplete(f"{path} cannot be read: {error}. {_FIX}") from error
    if not isinstance(content, dict) or content.get("schema") != _SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else type(content).__name__
        raise PackageIncomplete(f"{path} has schema {found!r}, but these Python files read schema {_SCHEMA}. {_FIX}")
    missing = [key for key in _KEYS[relative] if key not in content]
    if missing:
        raise PackageIncomplete(f"{path} has no {missing[0]!r}; it is damaged or of another release. {_FIX}")
    return content


def version() -> str:
    """The version of the files that were imported, with its label; what the wheel's name says."""
    return str(read(MANIFEST)["version"])
