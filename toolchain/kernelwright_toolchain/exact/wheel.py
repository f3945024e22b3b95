# SPDX-License-Identifier: MIT
"""A wheel as bytes: its members, how they are packed, what it says of itself, and what two of them differ in."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kernelwright_toolchain import source
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.exact import shape
from kernelwright_toolchain.request import DEFAULT_PROVIDER
from kernelwright_toolchain.wheel import statement
from kernelwright_toolchain.wheel.gates import MANIFEST

WHOLE = "the wheel"  # in the place of a member's name
MOST = 1 << 30  # bytes of all members; a debug build of every code has a fifth of it


@dataclass(frozen=True)
class Difference:
    """`kind` is the cause in a word, as docs/exactness.md lists them; `follows` differ only because others do."""

    member: str
    kind: str
    words: str

    def __str__(self) -> str:
        return f"{self.member}: {self.kind}: {self.words}"


@dataclass(frozen=True)
class Packing:
    date: tuple[int, ...]
    mode: int
    method: int
    packed: int  # bytes
    system: int


@dataclass(frozen=True)
class Wheel:
    """`packing` keeps the archive's order."""

    name: str
    sha256: str
    members: dict[str, bytes]
    packing: dict[str, Packing]
    before: int = 0  # bytes that stand before the archive

    @property
    def info(self) -> str:
        """The .dist-info directory, with its slash."""
        found = [name.partition("/")[0] + "/" for name in self.members if name.partition("/")[0].endswith(".dist-info")]
        return found[0] if found else ""

    @cached_property
    def statement(self) -> dict[str, Any]:
        """RequestError if there is none of this toolchain's, or if it is not what this toolchain writes."""
        name = f"{self.info or '*.dist-info/'}{statement.NAME}"
        try:
            found = json.loads(self.members.get(name, b"{}"))
        except ValueError as error:
            raise RequestError(f"{self.name} holds no recipe: {name} is no JSON ({error})") from None
        kind = found.get("predicateType") if isinstance(found, dict) else None
        if kind != statement.PREDICATE:
            raise RequestError(
                f"{self.name} holds no recipe: {name} {f'is of type {kind!r:.80}' if kind else 'is not in it'}; "
                f"`verify` checks wheels that this toolchain made, with a statement of type {statement.PREDICATE}"
            )
        for fault in shape.faults(found, shape.STATEMENT, "its statement"):
            raise RequestError(f"{self.name} holds no recipe that could be followed: {fault} ({name})")
        return dict(found)

    @property
    def recipe(self) -> dict[str, Any]:
        return dict(self.statement["predicate"])

    @property
    def images(self) -> dict[str, bytes]:
        return {name: data for name, data in self.members.items() if name.endswith((".cubin", ".ptx"))}


def read(path: Path) -> Wheel:
    """The whole wheel; RequestError if it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            size = sum(info.file_size for info in infos)
            if size > MOST:
                raise RequestError(f"{path} would unpack to {size:,} bytes; no wheel of this project has {MOST:,}")
            members = {info.filename: archive.read(info) for info in infos}
            for twice, count in Counter(info.filename for info in infos).items():
                if count > 1:  # one installer would take the first, another one the last
                    raise RequestError(f"{path} cannot be read as a wheel: {twice!r:.80} is in it {count} times")
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, struct.error) as error:
        raise RequestError(f"{path} cannot be read as a wheel: {error}") from None
    packing = {
        i.filename: Packing(i.date_time, i.external_attr >> 16, i.compress_type, i.compress_size, i.create_system)
        for i in infos
    }
    before = min((info.header_offset for info in infos), default=0)
    return Wheel(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), members, packing, before)


def commit_of(path: Path, sha256: str) -> str:
    """The commit that the statement beside the wheel names, in words; "" if there is none about these bytes."""
    try:
        found = json.loads(path.with_name(path.name + statement.ABOUT_WHEEL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if list(shape.faults(found, shape.BESIDE, "")) or found["subject"][0]["digest"]["sha256"] != sha256:
        return ""
    made = found["predicate"]["made"]
    changes = " with changes that no commit has" if made["dirty"] else ""
    return f"{made['commit']:.64}{changes}" if made["commit"] else ""


def left_out(wheel: Wheel) -> dict[str, str]:
    """Member that an image would be -> the member that serves for it, since the same is loaded of both."""
    try:
        rows = json.loads(wheel.members["kernelwright/manifest.json"])["images"]
        return {
            f"kernelwright/kernels/{row['code']}/{row['op']}.{row['kind']}": f"kernelwright/{row['path']}"
            for row in rows
            if row.get("served_by")
        }
    except (LookupError, TypeError, ValueError, AttributeError):
        return {}  # of a wheel from anywhere; its members are compared whatever it says


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def false_claims(wheel: Wheel) -> Iterator[Difference]:
    """Members that are not what the wheel's own RECORD and statement say: somebody changed it after it was made."""
    record = wheel.members.get(f"{wheel.info}RECORD", b"").decode("utf-8", "replace")
    rows = {row[0]: row[1].removeprefix("sha256=") for row in csv.reader(record.splitlines()) if len(row) == 3}
    stated = {row["name"]: row["digest"]["sha256"] for row in wheel.statement["subject"]}
    for name, data in sorted(wheel.members.items()):
        if name == f"{wheel.info}RECORD":
            continue
        liars = ["RECORD"] if rows.get(name) != _urlsafe(data) else []
        if name != wheel.info + statement.NAME and stated.get(name) != hashlib.sha256(data).hexdigest():
            liars.append("statement")
        if liars:
            yield Difference(
                name, "claim", f"not what the wheel's own {' and '.join(liars)} says; it was changed later"
            )
    for name in sorted((rows.keys() | stated.keys()) - wheel.members.keys()):
        yield Difference(name, "claim", "named by the wheel's own RECORD or statement, and not in it")
    yield from _contradictions(wheel)


def _contradictions(wheel: Wheel) -> Iterator[Difference]:
    """What the statement says twice, in different words: itself, or the manifest, which the library is made with."""
    name, recipe = wheel.info + statement.NAME, wheel.recipe
    own = source.digest(recipe["inputs"])
    if own != recipe["source"]["sha256"]:
        yield Difference(
            name, "claim", f"its inputs have the sha256 {own}, and it says {recipe['source']['sha256']:.64}"
        )
    subjects = [row["name"] for row in wheel.statement["subject"]]
    for twice in sorted({subject for subject in subjects if subjects.count(subject) > 1}):
        yield Difference(name, "claim", f"it names {twice!r:.80} twice")
    with suppress(ValueError, AttributeError, TypeError):
        manifest = dict(json.loads(wheel.members.get(MANIFEST, b"{}")))
        provider = {"provider": DEFAULT_PROVIDER, **recipe["build"]}["provider"]
        for key, value in (*((key, recipe["build"][key]) for key in ("target", "toolkit")), ("provider", provider)):
            if manifest.get(key, value) != value:
                yield Difference(name, "claim", f"it says {key} {value!r:.60}, and the manifest {manifest[key]!r:.60}")
        if manifest.get("compiler", recipe["device_compiler"]) != recipe["device_compiler"]:
            yield Difference(name, "claim", "it names another device compiler than the manifest")


def carried_over(data: bytes, theirs: Wheel, ours: Wheel, changed: list[str]) -> bytes:
    """`data` of theirs with the digests of the changed members put as ours has them."""
    for name in changed:
        one, other = theirs.members[name], ours.members[name]
        pairs = [
            (f"{_urlsafe(one)},{len(one)}", f"{_urlsafe(other)},{len(other)}"),
            (hashlib.sha256(one).hexdigest(), hashlib.sha256(other).hexdigest()),
        ]
        for old, new in pairs:
            data = data.replace(old.encode(), new.encode())
    return data
