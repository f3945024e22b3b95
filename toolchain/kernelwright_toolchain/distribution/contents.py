# SPDX-License-Identifier: MIT
"""What the toolchain's wheel and sdist hold: its own files, and what it takes from the tree around it as data.

In a checkout of kernelwright the table and the locks lie beside the toolchain's folder, where people look for them; an
sdist has them where its wheel will.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernelwright_toolchain import diagnosis
from kernelwright_toolchain.errors import RequestError

PACKAGE = "kernelwright_toolchain"
DATA = f"{PACKAGE}/data"
LICENCE = "LICENSE"
BESIDE = ("targets.toml", "locks")  # of the tree around it
TOP = ("pyproject.toml", "README.md")
_LEFT_OUT = ("__pycache__", "data")


def _files(folder: Path) -> Iterator[Path]:
    """Below the folder, without what an editor, a tool or an interpreter left there."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir() and path.name not in _LEFT_OUT:
            yield from _files(path)
        elif path.is_file():
            yield path


def _data(tree: Path) -> Iterator[tuple[str, Path]]:
    """name in the wheel -> file."""
    packed = tree / DATA
    around = packed if packed.is_dir() else tree.parent
    for name in BESIDE:
        place = around / name
        if not place.exists():
            raise RequestError(
                f"{place} is missing: the toolchain is packed from a checkout of kernelwright or its sdist"
            )
        for path in _files(place) if place.is_dir() else [place]:
            yield f"{DATA}/{path.relative_to(around).as_posix()}", path
    own = around / "doctor" if around == packed else around / "src"
    first = own / "kernelwright"
    for path in [*(first / name for name in diagnosis.FILES), *_files(first / diagnosis.FOLDER)]:
        yield f"{DATA}/doctor/{path.relative_to(own).as_posix()}", path


def package(tree: Path) -> dict[str, bytes]:
    """The wheel's members but for its dist-info; `tree` holds pyproject.toml."""
    found = {path.relative_to(tree).as_posix(): path.read_bytes() for path in _files(tree / PACKAGE)}
    return found | {name: path.read_bytes() for name, path in _data(tree)}


def licence(tree: Path) -> bytes:
    own = tree / LICENCE
    return (own if own.is_file() else tree.parent / LICENCE).read_bytes()


def source(tree: Path) -> dict[str, bytes]:
    """The sdist's members: all that its wheel is made from."""
    top = {name: (tree / name).read_bytes() for name in TOP}
    return {**top, LICENCE: licence(tree), **package(tree)}
