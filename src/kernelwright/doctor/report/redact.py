# SPDX-License-Identifier: MIT
"""Takes out of a report what names a person or a machine."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
from pathlib import Path
from typing import Any

_HOST = "<host>"
_DOMAIN = r"(?:\.[a-zA-Z][\w-]*)*"


def _secrets() -> list[tuple[str, str]]:
    """(text, what stands for it), longest first so that no part of one is left."""
    found: dict[str, str] = {}
    with contextlib.suppress(RuntimeError):  # no home is known, so none is in the report
        found[str(Path.home())] = "<home>"
    short = socket.gethostname().partition(".")[0]  # what stands behind a point goes with it, see `redacted`
    for text, stand_in in ((short, _HOST), (_user(), "<user>")):
        if len(text) > 1 and text != "root":
            found.setdefault(text, stand_in)
    found.pop("/", None)
    return sorted(found.items(), key=lambda pair: -len(pair[0]))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user id without a name
        return str(os.getuid())


def redacted(told: Any) -> Any:
    """The same data with home, host and user replaced wherever they stand as a word of their own."""
    secrets = _secrets()

    def clean(text: str) -> str:
        for secret, stand_in in secrets:
            end = r"(?![\w.-])" if secret[-1].isalnum() else ""
            end = rf"{_DOMAIN}(?![\w-])" if stand_in == _HOST else end
            text = re.sub(rf"(?<![\w.-]){re.escape(secret)}{end}", stand_in, text)
        return re.sub(r"/(home|Users)/[^/\s:'\"]+", r"/\1/<user>", text)

    if isinstance(told, dict):
        return {key: redacted(value) for key, value in told.items()}
    if isinstance(told, list):
        return [redacted(value) for value in told]
    return clean(told) if isinstance(told, str) else told
