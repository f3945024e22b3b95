# SPDX-License-Identifier: MIT
"""A scratch tree in the form that the device build knows, made from a project's kernels: so the same rules, cache and
schedule serve both."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kernelwright_toolchain.device.compiler import FAMILIES
from kernelwright_toolchain.errors import KwError, RequestError
from kernelwright_toolchain.packages.table import Kernel

HEADERS = (".cuh", ".h", ".hpp")


def sources(root: Path, kernels: Sequence[Kernel]) -> list[Path]:
    """Every file that the images may be made from, relative to the root; the headers beside a source among them."""
    found: set[Path] = set()
    for kernel in kernels:
        path = root / kernel.source
        if not path.is_file() or path.suffix != ".cu":
            raise RequestError(
                f"[kernel.{kernel.name}] source = {kernel.source!r}: there is no such .cu file in {root}"
            )
        found.add(path)
        found |= {one for one in path.parent.rglob("*") if one.suffix in HEADERS}
    return sorted(path.relative_to(root) for path in found)


def lay_out(root: Path, place: Path, package: str, kernels: Sequence[Kernel]) -> Path:
    """The tree, anew."""
    shutil.rmtree(place, ignore_errors=True)
    family = place / FAMILIES / package
    family.mkdir(parents=True)
    for kernel in kernels:
        folder = (root / kernel.source).parent
        for path in sources(root, [kernel]):
            to = family / (root / path).relative_to(folder)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, to)
    return place


@contextmanager
def in_their_words(package: str, kernels: Sequence[Kernel]) -> Iterator[None]:
    """Errors name the project's own files."""
    try:
        yield
    except KwError as error:
        said = str(error)
        for kernel in kernels:
            name = Path(kernel.source).name
            said = said.replace(f"{FAMILIES}/{package}/{name}", kernel.source)
        raise type(error)(
            said.replace(f"{FAMILIES}/{package}/", f"{Path(kernels[0].source).parent.as_posix()}/")
        ) from None
