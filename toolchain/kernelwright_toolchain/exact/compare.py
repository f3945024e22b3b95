# SPDX-License-Identifier: MIT
"""Two wheels member by member: the same, or what differs and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kernelwright_toolchain.exact import image, library, text
from kernelwright_toolchain.exact.wheel import WHOLE, Difference, Wheel, carried_over, left_out
from kernelwright_toolchain.wheel import statement

FOLLOWS = "follows"
# Parts of a recipe that decide machine code, beside flags.
_COMPILERS = ("driver", "version", "front", "for")
_SHOWN = 8


def _named(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _lists(theirs: list[str], ours: list[str]) -> str:
    gone, new = [w for w in theirs if w not in ours], [w for w in ours if w not in theirs]
    return f"{' '.join(gone) or 'no more'} in the wheel, {' '.join(new) or 'no more'} in the rebuilt one"


def _compilers(what: str, theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[Difference]:
    said = [" ".join(str(side[key]) for key in _COMPILERS if key in side) for side in (theirs, ours)]
    if said[0] != said[1]:
        yield Difference(WHOLE, "compiler", f"{what}: {said[0] or 'none'} in the wheel, {said[1]} in the rebuilt one")
    for key in ("compile", "link"):
        if theirs.get(key) != ours.get(key):
            yield Difference(WHOLE, "flags", f"{what}, to {key}: {_lists(theirs.get(key, []), ours.get(key, []))}")
    for name in sorted(theirs.get("sets", {}).keys() | ours.get("sets", {}).keys()):
        one, other = theirs.get("sets", {}).get(name, []), ours.get("sets", {}).get(name, [])
        if one != other:
            yield Difference(WHOLE, "flags", f"{what}, for {name}: {_lists(one, other)}")


def recipes(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[Difference]:
    """What was asked for, and the inputs: whatever differs here explains what follows."""
    for key in sorted(theirs.get("build", {}).keys() | ours.get("build", {}).keys()):
        one, other = theirs.get("build", {}).get(key), ours.get("build", {}).get(key)
        if one != other:
            yield Difference(WHOLE, "request", f"{key} {_named(one)} in the wheel, {_named(other)} in the rebuilt one")
    yield from _compilers("device compiler", theirs.get("device_compiler", {}), ours.get("device_compiler", {}))
    yield from _compilers("host compiler", theirs.get("host_compiler", {}), ours.get("host_compiler", {}))
    for what in ("locks", "inputs"):
        one, other = theirs.get(what, {}), ours.get(what, {})
        files = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
        if files:
            more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
            kind = "tools" if what == "locks" else "source"
            yield Difference(WHOLE, kind, f"{', '.join(files[:_SHOWN])}{more}: not the files the wheel was made from")


def packing(theirs: Wheel, ours: Wheel) -> Iterator[Difference]:
    """The archive around the members; what many of them have in common is said once."""
    if theirs.before != ours.before:
        yield Difference(WHOLE, "packing", f"{theirs.before:,} bytes stand before the archive; no wheel has any")
    found = [*_packed(theirs, ours)]
    for kind in ("clock", "packing"):
        alike = [difference for difference in found if difference.kind == kind]
        if len(alike) <= _SHOWN:
            yield from alike
        else:
            yield Difference(
                WHOLE, kind, f"{len(alike)} members are packed otherwise, as {alike[0].member}: {alike[0].words}"
            )


def _packed(theirs: Wheel, ours: Wheel) -> Iterator[Difference]:
    """Member by member."""
    common = [name for name in theirs.packing if name in ours.packing]
    if common != [name for name in ours.packing if name in theirs.packing]:
        yield Difference(WHOLE, "packing", "its members stand in another order")
    for name in common:
        one, other = theirs.packing[name], ours.packing[name]
        if one.date != other.date:
            words = ["{:04}-{:02}-{:02} {:02}:{:02}:{:02}".format(*side.date) for side in (one, other)]
            yield Difference(name, "clock", f"dated {words[0]} in the wheel, {words[1]} in the rebuilt one")
        if one.mode != other.mode:
            yield Difference(name, "packing", f"mode {one.mode:o} in the wheel, {other.mode:o} in the rebuilt one")
        same = theirs.members[name] == ours.members[name]
        if same and (one.method, one.packed) != (other.method, other.packed):
            yield Difference(
                name, "packing", f"packed to {one.packed} bytes in the wheel, {other.packed} in the rebuilt one"
            )


def _document(name: str, theirs: bytes, ours: bytes) -> Iterator[Difference]:
    lines = [*text.changed_lines(theirs.decode("utf-8", "replace"), ours.decode("utf-8", "replace"))]
    told = text.causes((n[1:] for n in lines if n[0] == "-"), (n[1:] for n in lines if n[0] == "+"))
    for kind, sides in told.items():
        yield Difference(name, kind, text.phrase(*sides))
    if not told:
        shown = "".join(f"\n    {line[:160]}" for line in lines[:_SHOWN])
        yield Difference(name, "text", f"{len(lines)} lines differ:{shown}" if lines else "line ends differ")


def _member(name: str, theirs: Wheel, ours: Wheel, changed: list[str], explained: bool) -> Iterator[Difference]:
    one, other = theirs.members[name], ours.members[name]
    carried = carried_over(one, theirs, ours, [other_name for other_name in changed if other_name != name])
    images = [member for member in changed if member.endswith((".cubin", ".ptx"))]
    if carried == other:
        yield Difference(name, FOLLOWS, "only the digests of other members that differ")
    elif name.endswith((".cubin", ".ptx")):
        yield from _image(name, one, other, ours)
    elif name.endswith(".so"):
        for kind, words in library.differences(carried, other, explained=explained):
            if kind == "data" and images:
                yield Difference(name, FOLLOWS, "its table of images, which differ")
            else:
                yield Difference(name, kind, words)
    elif name.endswith(f".dist-info/{statement.NAME}") and explained:
        yield Difference(name, FOLLOWS, "the recipes differ, as said of the whole")
    elif name.startswith(theirs.info) and any(_image_of(theirs.members[image], ours) for image in images):
        yield Difference(name, FOLLOWS, "its digests of images that stand in others' places")
    elif name.endswith("/manifest.json") and (images or explained):
        yield Difference(name, FOLLOWS, "what it says of images or compilers that differ")
    else:
        yield from _document(name, carried, other)


def _image(name: str, one: bytes, other: bytes, ours: Wheel) -> Iterator[Difference]:
    if of := _image_of(one, ours):
        yield Difference(name, "image", f"it is {of} of the rebuilt one, under another's name")
    else:
        found = image.cubin(one, other) if name.endswith(".cubin") else image.ptx(one, other)
        yield from (Difference(name, kind, words) for kind, words in found)


def _image_of(data: bytes, ours: Wheel) -> str:
    """The name under which these bytes are an image of ours; "" if they are none."""
    return next((name for name, image in ours.images.items() if image == data), "")


def compare(theirs: Wheel, ours: Wheel) -> list[Difference]:
    """Every difference, causes first; empty if the two files are the same bytes."""
    if theirs.sha256 == ours.sha256 and theirs.name == ours.name:
        return []
    found = [*recipes(theirs.recipe, ours.recipe)]
    explained = any(difference.kind in ("compiler", "flags", "source", "request", "tools") for difference in found)
    stated = bool(found)
    if theirs.name != ours.name:
        found.append(Difference(WHOLE, "name", f"{theirs.name}, and the rebuilt one is {ours.name}"))
    for name in sorted(theirs.members.keys() ^ ours.members.keys()):
        kind, words, lacking = (
            ("extra", "only in the wheel", ours) if name in theirs.members else
            ("missing", "only in the rebuilt one", theirs)
        )  # fmt: skip
        serving = left_out(lacking).get(name)
        found.append(Difference(name, kind, f"{words}; the other has {serving} in its place" if serving else words))
    common = sorted(theirs.members.keys() & ours.members.keys())
    changed = [name for name in common if theirs.members[name] != ours.members[name]]
    for name in changed:
        whole = stated if name.endswith(".json") else explained
        found += _member(name, theirs, ours, changed, whole)
    found += packing(theirs, ours)
    found.sort(key=lambda difference: difference.kind == FOLLOWS)
    return found or [Difference(WHOLE, "packing", "the archive's own headers differ")]
