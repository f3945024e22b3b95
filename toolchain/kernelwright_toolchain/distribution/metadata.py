# SPDX-License-Identifier: MIT
"""METADATA and entry_points.txt from [project] of the toolchain's pyproject.toml: the keys that it uses, no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernelwright_toolchain.errors import TableError
from kernelwright_toolchain.targets.read import toml

_KNOWN = {
    "name", "version", "description", "readme", "requires-python", "license", "license-files", "authors", "keywords",
    "classifiers", "dependencies", "scripts",
}  # fmt: skip


def project(tree: Path) -> dict[str, Any]:
    """[project]; TableError for a key that would be left out of the metadata in silence."""
    path = tree / "pyproject.toml"
    found: dict[str, Any] = toml(path.read_text(encoding="utf-8"), str(path))["project"]
    if odd := found.keys() - _KNOWN:
        raise TableError(f"{path}: [project] has {min(odd)}, which distribution/metadata.py does not write")
    return found


def text(tree: Path) -> bytes:
    """METADATA, and PKG-INFO of the sdist."""
    given = project(tree)
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {given['name']}",
        f"Version: {given['version']}",
        f"Summary: {given['description']}",
        f"Author: {', '.join(author['name'] for author in given['authors'])}",
        f"License-Expression: {given['license']}",
        *(f"License-File: {name}" for name in given["license-files"]),
        f"Keywords: {','.join(given['keywords'])}",
        *(f"Classifier: {name}" for name in given["classifiers"]),
        f"Requires-Python: {given['requires-python']}",
        *(f"Requires-Dist: {name}" for name in given["dependencies"]),
        "Description-Content-Type: text/markdown",
        "",
        (tree / given["readme"]).read_text(encoding="utf-8"),
    ]
    return "\n".join(lines).encode()


def entry_points(tree: Path) -> bytes:
    lines = [f"{name} = {place}" for name, place in sorted(project(tree)["scripts"].items())]
    return ("\n".join(["[console_scripts]", *lines]) + "\n").encode()
