# SPDX-License-Identifier: MIT
"""Where wheels lie that somebody else built: a directory, or an address that is asked by HTTP."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright_toolchain.errors import RequestError, WheelRefused
from kernelwright_toolchain.files import given

PATIENCE = 30  # seconds without a byte
MOST = 1 << 30  # bytes of one file; a debug build of every code has a tenth of it
_HERE = ("localhost", "127.0.0.1", "::1")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a release page to where its files lie, but never from https to anything less."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        before, after = (urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl))
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            raise WheelRefused(
                f"{req.full_url} sends on to {newurl}, which anybody on the way may change. Take the wheel from where "
                "it was published, or leave --from out to build it"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_open = urllib.request.build_opener(_Redirects).open


class Unreachable(Exception):
    """A place that gives nothing now, and why; whoever asks has another way to a wheel."""


@dataclass(frozen=True)
class Place:
    """Where wheels lie: a directory, or an address below which they have their names."""

    text: str

    @property
    def address(self) -> str | None:
        """Ends with a slash; None for a directory."""
        if "://" not in self.text:
            return None
        try:
            parts = urllib.parse.urlsplit(self.text)
            host = (parts.hostname or "").encode("idna").decode()
        except ValueError as error:  # UnicodeError too
            raise RequestError(f"--from {self.text} is neither a path nor an address ({error})") from None
        if parts.scheme not in ("http", "https"):
            raise RequestError(
                f"--from {self.text}: an address begins with https:// or http://; anything else is a path"
            )
        if not host or parts.query or parts.fragment or parts.username:
            raise RequestError(
                f"--from {parts.scheme}://{host}{parts.path}: an address is a host and a path below which the wheels "
                "have their names, without a question, a mark or a password in it"
            )
        path = urllib.parse.quote(parts.path, safe="/%:@!$&'()*+,;=~").rstrip("/")
        return urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, "", "")) + "/"

    def check(self) -> None:
        """RequestError for a path that is no directory: nobody means to build for minutes because of a slip."""
        if self.address is None and not given(self.text).is_dir():
            what = "is not a directory" if given(self.text).exists() else "does not exist"
            raise RequestError(
                f"--from {self.text}: {given(self.text).absolute()} {what}. Name the directory or the address where "
                "wheels lie with their SHA256SUMS, or leave --from out to build"
            )

    @property
    def is_open(self) -> bool:
        """Whether anybody between here and there may change what it gives."""
        parts = urllib.parse.urlsplit(self.address or "")
        return parts.scheme == "http" and parts.hostname not in _HERE

    def read(self, name: str) -> bytes | None:
        """The file's bytes; None if it is not there; Unreachable if that cannot be known."""
        if self.address is None:
            return self._read_file(given(self.text) / name)
        return self._ask("GET", name)

    def has(self, name: str) -> bool:
        if self.address is None:
            return (given(self.text) / name).is_file()
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
            with _open(request, timeout=PATIENCE) as answer:
                data = bytes(answer.read(MOST + 1))
                if len(data) > MOST:
                    raise Unreachable(f"{url} has more than {MOST:,} bytes, and no wheel of this project has")
                if method == "GET" and answer.length:
                    raise Unreachable(f"{url} broke off after {len(data):,} bytes")
                return data
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                return None
            raise Unreachable(f"{url} answers {error.code} {error.reason}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:  # the last: it sends on to no address
            raise Unreachable(f"{url} cannot be read ({getattr(error, 'reason', error)})") from None
