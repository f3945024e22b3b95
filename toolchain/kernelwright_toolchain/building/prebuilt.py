# SPDX-License-Identifier: MIT
"""A wheel that somebody else built, out of a directory or from an address: only one that SHA256SUMS there lists."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.building.place import Place, Unreachable
from kernelwright_toolchain.building.publish import SUMS
from kernelwright_toolchain.errors import RequestError, WheelRefused
from kernelwright_toolchain.files import write_atomically
from kernelwright_toolchain.manifest import build_version
from kernelwright_toolchain.project import project
from kernelwright_toolchain.request import Request

_LINE = re.compile(r"([0-9a-f]{64}) [ *](\S+)")
_SHOWN = 4


@dataclass(frozen=True)
class Wanted:
    """One wheel by all that its name says; `sha256` where the person names that too."""

    name: str
    version: str
    target: str
    toolkit: str
    sha256: str | None = None


def wanted(request: Request, version: str | None, sha256: str | None) -> Wanted:
    """The name that this request's wheel has; `version` instead of this tree's, without its label."""
    own = build_version(project().root, request)
    base, plus, label = own.partition("+")
    full = f"{version or base}{plus}{label}"
    if sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise RequestError(f"--sha256 {sha256!r} is no sha256: 64 digits of 0-9 and a-f")
    if not re.fullmatch(r"[0-9][0-9a-z.]*", version or base):
        raise RequestError(f"--version {version!r} is none, such as {base}; its label follows from the other options")
    name = f"kernelwright-{full}-py3-none-{request.target.platform_tag}.whl"
    return Wanted(name, full, request.target.name, request.toolkit.name, sha256)


def listed(place: Place) -> dict[str, str] | None:
    """name -> sha256 of what the place offers; None if it has no list."""
    data = place.read(SUMS)
    if data is None:
        return None
    found: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None or found.get(match[2], match[1]) != match[1]:
            raise WheelRefused(f"{SUMS} of {place.text}, line {number}, is not what sha256sum writes: {line[:100]!r}")
        found[match[2]] = match[1]
    return found


def _unlisted(place: Place, want: Wanted, known: dict[str, str] | None) -> str:
    """Why there is nothing to take; WheelRefused if the wheel lies there and nothing vouches for it."""
    if place.has(want.name):
        lacks = f"its {SUMS} does not list it" if known is not None else f"no {SUMS} is beside it"
        raise WheelRefused(
            f"{want.name} is in {place.text}, but {lacks}, so nothing says which bytes it should have. Take it from "
            f"where it was published, with {SUMS}; or leave --from out to build it"
        )
    if known is None:
        return f"{place.text} has neither {want.name} nor a {SUMS}"
    others = sorted(name for name in known if name.endswith(".whl"))
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    return f"{place.text} does not list {want.name}; it lists {', '.join(others[:_SHOWN]) or 'no wheel'}{more}"


def _kept(path: Path, digest: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def checked(data: bytes, want: Wanted) -> None:
    """WheelRefused if the wheel itself says that it is another one than its name does."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            manifest = dict(json.loads(archive.read("kernelwright/manifest.json")))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, LookupError, ValueError, TypeError) as error:
        raise WheelRefused(
            f"{want.name} is listed, but is no wheel of this project: its manifest cannot be read ({error}). Nothing "
            "of it is kept; tell who publishes it, or leave --from out to build it"
        ) from None
    for key, value in (("version", want.version), ("target", want.target), ("toolkit", want.toolkit)):
        if manifest.get(key) != value:
            raise WheelRefused(
                f"{want.name}: its manifest says {key} {manifest.get(key)}, and {value} was asked for. It is listed, "
                "but was given another wheel's name; nothing of it is kept"
            )


def take(place: Place, want: Wanted, keep: Path) -> tuple[Path | None, str]:
    """The wheel in `keep`, with the bytes that its list and the person named, or None; and in words, why.

    WheelRefused for a wheel that lies there and is not the one that it should be.
    """
    if place.is_open and want.sha256 is None:
        raise WheelRefused(
            f"{place.text}: by http:// anybody on the way may change {want.name} together with its {SUMS}. Use "
            "https://, or name the bytes by --sha256, or leave --from out to build it"
        )
    kept = keep / want.name
    if want.sha256 and _kept(kept, want.sha256):
        return kept, f"{kept} was taken before and has the sha256 that was asked for"
    try:
        known = listed(place)
        digest = (known or {}).get(want.name)
        if digest is None:
            return None, _unlisted(place, want, known)
        if want.sha256 not in (None, digest):
            raise WheelRefused(
                f"{place.text} lists {want.name} with sha256 {digest}, and {want.sha256} was asked for: it is another "
                "build of the same name"
            )
        if _kept(kept, digest):
            return kept, f"{place.text} lists it, and it was taken before"
        data = place.read(want.name)
    except Unreachable as error:
        return None, str(error)
    if data is None:
        return None, f"{place.text} lists {want.name} and does not have it"
    is_ = hashlib.sha256(data).hexdigest()
    if is_ != digest:
        raise WheelRefused(
            f"{want.name} of {place.text} has sha256 {is_}, and its {SUMS} says {digest}: it was cut off or changed "
            "after it was listed. Nothing of it is kept; try again later, or leave --from out to build it"
        )
    checked(data, want)
    write_atomically(kept, data)
    return kept, f"{place.text} lists it with this sha256"
