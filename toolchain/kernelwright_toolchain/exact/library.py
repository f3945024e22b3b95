# SPDX-License-Identifier: MIT
"""Why two builds of the host library differ: read from their sections, the stable ones first."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright_toolchain.exact import text
from kernelwright_toolchain.wheel.elf import Section, defined, sections

BUILD_ID = ".note.gnu.build-id"
COMMENT = ".comment"
CODE = ".text"
Parts = dict[str, Section]
# What moves when anything else does: tables of addresses, and the names of sections.
_FOLLOWING = (".eh_frame", ".eh_frame_hdr", ".plt", ".got", ".got.plt", ".dynamic", ".shstrtab", ".relro_padding")


def _strings(part: Section | None) -> set[str]:
    return {word.decode("utf-8", "replace") for word in part.data.split(b"\0") if word} if part else set()


def _functions(theirs: bytes, ours: bytes) -> list[str]:
    """Functions of the C ABI whose machine code differs."""

    def code(data: bytes) -> dict[str, bytes]:
        (part,) = [part for part in sections(data) if part.name == CODE]
        found = {}
        for symbol in defined(data):
            start = symbol.address - part.address
            if 0 <= start < len(part.data):
                found[symbol.name] = part.data[start : start + symbol.size]
        return found

    one, other = code(theirs), code(ours)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _code(theirs: bytes, ours: bytes, one: Section, other: Section, explained: bool) -> tuple[str, str]:
    named = _functions(theirs, ours)
    where = f"{len(named)} functions of the C ABI among them: {', '.join(named[:4])}" if named else "none of the C ABI"
    if len(one.data) == len(other.data):
        count = sum(a != b for a, b in zip(one.data, other.data, strict=True))
        size = f"{count:,} of {len(one.data):,} bytes of machine code differ"
        if explained:
            return "follows", f"{size}: the addresses of what moved"
    else:
        size = f"{len(one.data):,} bytes of machine code in the wheel, {len(other.data):,} in the rebuilt one"
        if explained:
            return "follows", size
    return "code", f"{size}, {where}: other sources, other flags or another compiler made it"


def _told(one: Parts, other: Parts, names: list[str]) -> Iterator[tuple[str, str]]:
    """What the strings of these sections give away."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for name in names:
        for kind, sides in text.causes(_strings(one.get(name)), _strings(other.get(name))).items():
            pair = found.setdefault(kind, (set(), set()))
            pair[0].update(sides[0])
            pair[1].update(sides[1])
    for kind, (gone, new) in found.items():
        yield kind, text.phrase(sorted(gone), sorted(new))


def _exports(theirs: bytes, ours: bytes) -> Iterator[tuple[str, str]]:
    one, other = ({symbol.name for symbol in defined(data) if symbol.is_global} for data in (theirs, ours))
    for only, where in ((one - other, "wheel"), (other - one, "rebuilt one")):
        if only:
            yield "exports", f"{', '.join(sorted(only))} {'are' if len(only) > 1 else 'is'} only in the {where}"


def _notes(one: Parts, other: Parts, differing: list[str]) -> Iterator[tuple[str, str]]:
    """Sections that exist to tell where a library comes from."""
    if BUILD_ID in differing:
        ids = [part.data[16:].hex() if part else "none" for part in (one.get(BUILD_ID), other.get(BUILD_ID))]
        yield "build-id", f"{ids[0]} in the wheel, {ids[1]} in the rebuilt one; a hash of the rest, or of chance"
    compilers = [sorted(_strings(part.get(COMMENT))) for part in (one, other)]
    if compilers[0] != compilers[1]:  # clang's section has one byte more at -O0, and names the same compiler
        yield "compiler", text.phrase(*compilers)


def differences(theirs: bytes, ours: bytes, *, explained: bool) -> list[tuple[str, str]]:
    """(kind, words) of each cause. `explained`: the recipes differ in what decides machine code."""
    try:
        return _causes(theirs, ours, explained=explained)
    except ValueError as error:  # any table in it may be damaged
        return [("code", f"it cannot be read as a library: {error}")]


def _causes(theirs: bytes, ours: bytes, *, explained: bool) -> list[tuple[str, str]]:
    one = {part.name: part for part in sections(theirs)}
    other = {part.name: part for part in sections(ours)}
    every = {**one, **other}
    differing = [
        name for name in every if getattr(one.get(name), "data", None) != getattr(other.get(name), "data", None)
    ]
    data = [name for name in differing if name not in (BUILD_ID, COMMENT, CODE)]
    found = [*_notes(one, other, differing), *_told(one, other, data), *_exports(theirs, ours)]
    if CODE in differing and CODE in one and CODE in other:
        found.append(_code(theirs, ours, one[CODE], other[CODE], explained or bool(found)))
    rest = [name for name in data if name not in _FOLLOWING]
    if rest and not found:
        several = [_strings(one.get(name)) ^ _strings(other.get(name)) for name in rest]
        words = sorted((word for words in several for word in words if word.isascii() and word.isprintable()), key=len)
        found.append(("data", f"{', '.join(rest)} differ" + (f", such as {words[-1][:80]!r}" if words else "")))
    return found or [("data", "what lies around and between its sections differs")]
