# SPDX-License-Identifier: MIT
"""METADATA and entry_points.txt from a [project] table (PEP 621), for wheels that no other backend makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelwright_toolchain.errors import TableError

_KNOWN = {
    "name", "version", "description", "readme", "requires-python", "license", "license-files", "authors", "keywords",
    "classifiers", "dependencies", "optional-dependencies", "urls", "scripts",
}  # fmt: skip


def known(project: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The table; TableError for a key that would be left out of the metadata in silence."""
    if odd := project.keys() - _KNOWN:
        raise TableError(f"{path}: [project] has {min(odd)}, which is not written into METADATA; take it out")
    for key in ("name", "version"):
        if not isinstance(project.get(key), str):
            raise TableError(f"{path}: [project] has no {key}")
    return project


def _lines(project: Mapping[str, Any]) -> Iterator[str]:
    yield "Metadata-Version: 2.4"
    yield f"Name: {project['name']}"
    yield f"Version: {project['version']}"
    if "description" in project:
        yield f"Summary: {project['description']}"
    names = [author["name"] for author in project.get("authors", ()) if "name" in author]
    if names:
        yield f"Author: {', '.join(names)}"
    if isinstance(project.get("license"), str):
        yield f"License-Expression: {project['license']}"
    yield from (f"License-File: {name}" for name in project.get("license-files", ()))
    if project.get("keywords"):
        yield f"Keywords: {','.join(project['keywords'])}"
    yield from (f"Classifier: {name}" for name in project.get("classifiers", ()))
    yield from (f"Project-URL: {name}, {url}" for name, url in project.get("urls", {}).items())
    if "requires-python" in project:
        yield f"Requires-Python: {project['requires-python']}"
    yield from (f"Requires-Dist: {name}" for name in project.get("dependencies", ()))
    for extra, names in project.get("optional-dependencies", {}).items():
        yield f"Provides-Extra: {extra}"
        for name in names:
            what, _, when = name.partition(";")
            both = f"({when.strip()}) and extra == '{extra}'" if when else f"extra == '{extra}'"
            yield f"Requires-Dist: {what.strip()}; {both}"


def text(project: Mapping[str, Any], tree: Path) -> bytes:
    """METADATA, and PKG-INFO of an sdist."""
    lines = list(_lines(project))
    if isinstance(readme := project.get("readme"), str):
        lines += ["Description-Content-Type: text/markdown", "", (tree / readme).read_text(encoding="utf-8")]
    else:
        lines.append("")
    return "\n".join(lines).encode()


def entry_points(project: Mapping[str, Any]) -> bytes:
    lines = [f"{name} = {place}" for name, place in sorted(project.get("scripts", {}).items())]
    return ("\n".join(["[console_scripts]", *lines]) + "\n").encode()
