# SPDX-License-Identifier: MIT
"""The GPU code of a file as modules: what is loaded as one, with its images for several GPUs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.xray import _fatbin, _host, _images, _unpack
from kernelwright.doctor.xray._view import Damaged, View

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_NOTES = 64  # images of one file in which the compiler's note is looked for
_MOST_UNPACKED = 256 << 20
_PREFIXES = {"sass": "sm", "ptx": "compute", "lto": "lto"}
_IN_A_NAME = re.compile(r"[._-]?(?:sm|compute)_?\d{2,3}[af]?")


@dataclass(frozen=True)
class Module:
    """What is loaded as one. `relinked`: the driver can link it anew where the linked code does not fit."""

    name: str
    images: tuple[_fatbin.Entry, ...]
    relinked: bool = False


def name_of(image: _fatbin.Entry) -> str:
    """As compilers call it."""
    return f"{_PREFIXES.get(image.kind, 'compute')}_{image.arch}"


def modules_of_library(code: list[tuple[str, tuple[_fatbin.Entry, ...]]]) -> list[Module]:
    return [Module(f"{where} {number}", images, where == _host.RELINKED) for number, (where, images) in enumerate(code)]


def modules_of_files(files: Iterable[tuple[str, _fatbin.Entry]]) -> list[Module]:
    """Files that are one image each: those whose names differ only by the GPU are one module."""
    found: dict[str, list[_fatbin.Entry]] = defaultdict(list)
    for name, image in files:
        stem = name.rpartition(".")[0] or name
        found["/".join(part for part in _IN_A_NAME.sub("", stem).split("/") if part)].append(image)
    return [Module(name, tuple(images)) for name, images in sorted(found.items())]


def as_table(modules: Iterable[Module]) -> list[dict[str, Any]]:
    """One row for each GPU code: how many images, how large in the file and unpacked, how packed."""
    rows: dict[tuple[str, str, bool], list[_fatbin.Entry]] = defaultdict(list)
    for module in modules:
        for image in module.images:
            rows[image.kind, name_of(image), module.relinked].append(image)
    return [
        {
            "code": name,
            "kind": kind,
            "relinked": relinked,
            "images": len(images),
            "bytes": sum(image.size for image in images),
            "unpacked": sum(image.unpacked for image in images),
            "packing": dict(Counter(image.packing or "none" for image in images)),
            "versions": sorted({f"{image.version[0]}.{image.version[1]}" for image in images}),
        }
        for (kind, name, relinked), images in sorted(rows.items(), key=_order)
    ]


def _order(row: tuple[tuple[str, str, bool], Any]) -> tuple[bool, str, int, str]:
    kind, name, relinked = row[0]
    return relinked, {"sass": "0", "ptx": "1"}.get(kind, "2"), int(re.sub(r"\D", "", name) or 0), name


def _beginning(view: View, image: _fatbin.Entry, most: int) -> bytes:
    stored = view.take(image.offset, image.size if image.packing else min(image.size, most))
    return _unpack.head(image.packing, stored, most)


def releases(view: View, modules: Iterable[Module]) -> list[str]:
    """The versions of the compilers whose notes stand in the images; of a few images of each GPU's."""
    looked: Counter[tuple[str, str]] = Counter()
    found = set()
    for module in modules:
        for image in module.images:
            if looked[image.kind, image.arch] >= 2 or looked.total() >= _MOST_NOTES:
                continue
            looked[image.kind, image.arch] += 1
            try:
                found.add(_images.release(_beginning(view, image, _images.HEAD)))
            except (Damaged, _unpack.CannotUnpack):
                continue
    return sorted(filter(None, found))


def kernels(view: View, modules: Iterable[Module]) -> tuple[dict[str, list[str]], list[str]]:
    """The names of the kernels by GPU code, and why some are missing."""
    found: dict[str, set[str]] = defaultdict(set)
    skipped: Counter[str] = Counter()
    for module in modules:
        for image in module.images:
            if module.relinked or image.kind not in {"sass", "ptx"}:
                continue
            if image.unpacked > _MOST_UNPACKED:
                skipped[f"an image claims {image.unpacked} bytes"] += 1
                continue
            try:
                whole = _unpack.whole(image.packing, view.take(image.offset, image.size), image.unpacked)
                found[name_of(image)] |= set(_images.kernels(image.kind, whole))
            except (Damaged, _unpack.CannotUnpack) as error:
                skipped[str(error)] += 1
    told = [f"kernel names of {count} images: {why}" for why, count in sorted(skipped.items())]
    return {code: sorted(names) for code, names in sorted(found.items())}, told
