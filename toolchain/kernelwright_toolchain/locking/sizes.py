# SPDX-License-Identifier: MIT
"""How much there is to fetch, asked before it is."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path


def size_of(url: str) -> int:
    """Bytes behind an address; 0 if nobody says."""
    parts = urllib.parse.urlsplit(url)
    try:
        if parts.scheme == "file":
            return Path(urllib.parse.unquote(parts.path)).stat().st_size
        if parts.scheme not in ("http", "https"):
            return 0
        request = urllib.request.Request(url.partition("#")[0], method="HEAD")  # noqa: S310 - the scheme is checked
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return int(answer.headers.get("Content-Length") or 0)
    except (OSError, ValueError, urllib.error.URLError):
        return 0
