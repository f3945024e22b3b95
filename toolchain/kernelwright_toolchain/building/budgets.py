# SPDX-License-Identifier: MIT
"""Holds a released wheel's families to their budgets: by their images as soon as those are there; told at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain import families
from kernelwright_toolchain.device.environment import cache_dir
from kernelwright_toolchain.device.image import Image
from kernelwright_toolchain.files import write_atomically
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.request import Request, label
from kernelwright_toolchain.targets import Table
from kernelwright_toolchain.wheel import archive, shares

if TYPE_CHECKING:
    from kernelwright_toolchain.device.build import Watch


def compressor(tools: host.HostTools, request: Request) -> archive.Compressor:
    """That which packs the wheel, in this process."""
    return packer(tools, host.libdeflate(request.provider))


def packer(tools: host.HostTools, library: Path | None) -> archive.Compressor:
    """libdeflate of these tools, in this process; or this library of it."""
    modules = [str(path) for path in tools.modules]
    sys.path[:0] = modules
    try:
        return archive.compressor(library)
    finally:
        del sys.path[: len(modules)]


def _packed(image: Image, compress: archive.Compressor) -> int:
    """Its bytes in a wheel, remembered beside the images: to compress takes a second for a few megabytes."""
    note = cache_dir() / "packed" / image.sha256[:2] / f"{image.sha256}-{archive.LEVEL}"
    with suppress(OSError, ValueError):
        return int(note.read_text(encoding="utf-8"))
    size = min(len(compress(image.data)), len(image.data))
    with suppress(OSError):  # a read-only cache only costs time
        write_atomically(note, str(size).encode())
    return size


def watch(request: Request, table: Table, tools: host.HostTools, root: Path | None = None) -> Watch | None:
    """Raises GateError for a family whose images alone are more than it may take; the wheel's gate has the last word.

    None where nothing is held to the budgets, which are read all the same.
    """
    root = root or project().root
    limits = families.limits(root, table, request.target)
    if label(request) or request.debug:
        return None

    def family_done(family: str, images: Sequence[Image]) -> None:
        compress = compressor(tools, request)
        size = sum(_packed(image, compress) for image in images if not image.served_by)
        if size > limits[family]:
            raise shares.over(family, size, limits[family], "its images alone", root)

    return family_done


def told(wheel: Path, library: Path, table: Table, request: Request) -> tuple[shares.Share, ...]:
    """What each family takes of the wheel that was made in CMake's directory `library`."""
    sizes = shares.sizes_of((library / shares.OBJECTS).read_bytes())
    return shares.shares(
        wheel.read_bytes(), sizes, families.limits(project().root, table, request.target), project().root
    )


HEAD = ("family", "bytes", "budget", "images", "library")


def as_table(found: Sequence[shares.Share], *, held: bool) -> str:
    """One line a family; the last sums up. Where a wheel is not held to the budgets, they are left out."""
    rows: list[tuple[str, ...]] = [HEAD]
    for share in found:
        numbers = (share.size, share.limit if held else None, share.images, share.library)
        rows.append((share.family, *(f"{number:,}" if number is not None else "-" for number in numbers)))
    columns: list[Callable[[shares.Share], int]] = [lambda s: s.size, lambda s: s.images, lambda s: s.library]
    size, images, library = (f"{sum(map(column, found)):,}" for column in columns)
    rows.append(("total", size, f"{families.MOST:,}" if held else "-", images, library))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])
