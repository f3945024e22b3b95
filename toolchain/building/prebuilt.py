# SPDX-License-Identifier: MIT
"""A wheel that somebody else built, out of a directory or from an address: only one that SHA256SUMS there lists."""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from toolchain.building.publish import SUMS
from toolchain.errors import RequestError, WheelRefused
from toolchain.files import write_atomically
from toolchain.manifest import build_version
from toolchain.request import Request
from toolchain.targets import ROOT

PATIENCE = 30  # seconds without a byte
_LINE = re.compile(r"([0-9a-f]{64}) [ *](\S+)")
_SHOWN = 4


class Unreachable(Exception):
    """A place that gives nothing now, and why; whoever asks has another way to a wheel."""


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
    own = build_version(ROOT, request)
    base, plus, label = own.partition("+")
    full = f"{version or base}{plus}{label}"
    if sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise RequestError(f"--sha256 {sha256!r} is no sha256: 64 digits of 0-9 and a-f")
    name = f"kernelwright-{full}-py3-none-{request.target.platform_tag}.whl"
    return Wanted(name, full, request.target.name, request.toolkit.name, sha256)


@dataclass(frozen=True)
class Place:
    """Where wheels lie: a directory, or an address below which they have their names."""

    text: str

    @property
    def address(self) -> str | None:
        """Ends with a slash; None for a directory."""
        if "://" not in self.text:
            return None
        if urllib.parse.urlsplit(self.text).scheme not in ("http", "https"):
            raise RequestError(
                f"--from {self.text}: an address begins with https:// or http://; anything else is a path"
            )
        return self.text.rstrip("/") + "/"

    def read(self, name: str) -> bytes | None:
        """The file's bytes; None if it is not there; Unreachable if that cannot be known."""
        if self.address is None:
            return self._read_file(Path(self.text) / name)
        return self._ask("GET", name)

    def has(self, name: str) -> bool:
        if self.address is None:
            return (Path(self.text) / name).is_file()
        return self._ask("HEAD", name) is not None

    @staticmethod
    def _read_file(path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unreachable(f"{path} cannot be read ({error.strerror})") from None

    def _ask(self, method: str, name: str) -> bytes | None:
        url = f"{self.address}{urllib.parse.quote(name)}"
        request = urllib.request.Request(url, method=method)  # noqa: S310 - http or https, see `address`
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - as above
                return bytes(answer.read())  # IncompleteRead where it breaks off
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                return None
            raise Unreachable(f"{url} answers {error.code} {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{url} cannot be read ({getattr(error, 'reason', error)})") from None


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


def take(place: Place, want: Wanted, keep: Path) -> tuple[Path | None, str]:
    """The wheel in `keep`, with the bytes that its list and the person named, or None; and in words, why.

    WheelRefused for a wheel that lies there and is not the one that it should be.
    """
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
    write_atomically(kept, data)
    return kept, f"{place.text} lists it with this sha256"
