# SPDX-License-Identifier: MIT
"""What differs between two wheels of one project: the file, the section, what wrote it, and what cures it."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright_toolchain.classic import fatbin
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.wheel import statement
from kernelwright_toolchain.wheel.elf import Section, sections

EXACT = "build it by `kwt build`, in whose namespaces paths, process numbers and dates are fixed"


@dataclass(frozen=True)
class Sign:
    """`pattern` stands in what differs, in one of the two at least. The first that fits is told."""

    name: str
    pattern: bytes
    cure: str


# What has no external symbol to be named after gets _GLOBAL__N__<hash of the path>_…_<hash of date, time zone, number>.
SIGNS = (
    Sign("process number of nvcc", rb"tmpxft_[0-9a-f]{8}", EXACT),
    Sign("nvcc beside another one in the same TMPDIR", rb"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}", EXACT),
    Sign("hash of the source's path", rb"_(?:GLOBAL__N__|INTERNAL_)[0-9a-f]{8}", EXACT),
    Sign("date of the source, or time zone", rb"_(?:GLOBAL__N__|INTERNAL_)[0-9a-f]{8}_\d+_\w+?_[0-9a-f]{8}_", EXACT),
    Sign(
        "toolkit", rb"Cuda compilation tools, release [\d.]+, V[\d.]+|cuda_\d+\.\d+\.r", "build both with one toolkit"
    ),
    Sign(
        "host compiler",
        rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+",
        "build both with one GCC, locked, at a fixed path",
    ),
    Sign("path", rb"/(?:home|tmp|root|work|build|usr|opt|var|mnt|data|src)/[\w./+-]+", EXACT),
)
# These change where another section does, and say nothing by themselves.
_FOLLOW = {
    ".symtab", ".eh_frame", ".eh_frame_hdr", ".rela.dyn", ".rela.plt", ".note.gnu.build-id", ".nvFatBinSegment",
    ".hash", ".gnu.hash", ".dynsym", ".gnu.version", ".gnu.version_r", ".got", ".got.plt", ".plt", ".shstrtab",
}  # fmt: skip
_DEVICE = {".nv_fatbin", "__nv_relfatbin"}
_LINES = re.compile(r"\.debug_(line|info|str|frame|loc|ranges|abbrev|aranges)|\.nv_debug")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sha256(wheel: Path) -> str:
    return digest(wheel)


def _members(wheel: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
    except (OSError, zipfile.BadZipFile) as error:
        raise RequestError(f"{wheel} cannot be read: {error}") from None


def recipe(wheel: Path) -> dict[str, Any]:
    """How it was made, as it says itself; RequestError for a wheel of another maker."""
    said = next((data for name, data in _members(wheel).items() if name.endswith(f".dist-info/{statement.NAME}")), None)
    if said is None:
        raise RequestError(
            f"{wheel.name} has no {statement.NAME}: kwt did not make it, and nothing says how it was made"
        )
    found: dict[str, Any] = json.loads(said)["predicate"]
    return found


def inputs(theirs: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[str]:
    """Sources that are others, first of all: then the bytes may differ as well."""
    for name in sorted(theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            yield f"{name}: source: the wheel was made from another one; check that commit out"


def _sign(one: bytes, other: bytes) -> Sign | None:
    """What only one of the two has."""
    for sign in SIGNS:
        if set(re.findall(sign.pattern, one)) != set(re.findall(sign.pattern, other)):
            return sign
    return None


def _library(name: str, one: bytes, other: bytes) -> Iterator[str]:
    try:
        first, second = ({section.name: section for section in sections(data)} for data in (one, other))
    except ValueError as error:
        yield f"{name}: cannot be read as ELF ({error})"
        return
    names = [*first, *(only for only in second if only not in first)]
    content = [[part.data if part else None for part in (first.get(at), second.get(at))] for at in names]
    odd = [at for at, (a, b) in zip(names, content, strict=True) if a != b]
    causes = [at for at in odd if at not in _FOLLOW]
    for at in causes or odd:
        yield f"{name}: {at}: {_why(at, first.get(at), second.get(at))}"
    if not odd:
        yield f"{name}: its headers differ, and no section"


def _why(section: str, a: Section | None, b: Section | None) -> str:
    if a is None or b is None:
        what = "line tables (-lineinfo or -g) in one alone" if _LINES.match(section) else "in one alone"
        return f"{what}; build both with the same options"
    if section in {".dynamic", ".dynstr"}:
        paths = [set(re.findall(rb"(?:\$ORIGIN|/)[\w./+$-]*lib[\w./+-]*", part.data)) for part in (a, b)]
        if paths[0] != paths[1] or section == ".dynamic":
            return "RUNPATH or what is needed; give it $ORIGIN or a fixed toolkit path (kwt build: /kw/cuda)"
    sign = _sign(a.data, b.data)
    words = f"{sign.name}; {sign.cure}" if sign else f"{len(a.data)} and {len(b.data)} bytes"
    return _why_device(a.data, b.data, sign) or words if section in _DEVICE else words


def _why_device(a: bytes, b: bytes, sign: Sign | None) -> str | None:
    """Images are packed: what they were made from shows in their headers."""
    if fatbin.codes(a) != fatbin.codes(b):
        return f"codes {fatbin.codes(a)} and {fatbin.codes(b)}; build both for the same"
    if fatbin.lined(a) != fatbin.lined(b):
        return "line tables (-lineinfo or -G) in one alone; build both with the same options"
    return None if sign else "device code; build both with one toolkit, and with the same options"


def wheels(one: Path, other: Path) -> list[str]:
    """A line for each difference; none where both are the same bytes."""
    if sha256(one) == sha256(other):
        return []
    first, second = _members(one), _members(other)
    found: list[str] = []
    for name in sorted(first.keys() | second.keys()):
        a, b = first.get(name), second.get(name)
        if a is None or b is None:
            found.append(f"{name}: in one wheel alone")
        elif a != b and a[:4] == b[:4] == b"\x7fELF":
            found += _library(name, a, b)
        elif a != b and not name.endswith((".dist-info/RECORD", f".dist-info/{statement.NAME}")):
            found.append(f"{name}: its text")
        elif a != b and name.endswith(statement.NAME):
            found += _recipes(json.loads(a)["predicate"], json.loads(b)["predicate"])
    return found or ["the order, dates or compression of the members"]


def _recipes(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """What was said to have made them: the host compiler and the toolkit are told here by name."""
    for key in sorted(one.keys() | other.keys()):
        if one.get(key) != other.get(key) and key != "inputs":
            yield f"recipe: {key.replace('_', ' ')}: {one.get(key)} and {other.get(key)}; build both with one"
