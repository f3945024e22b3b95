# SPDX-License-Identifier: MIT
"""RECORD: every member of a wheel with its digest."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping


def record(members: Mapping[str, bytes], name: str) -> bytes:
    """`name` is RECORD's own path, which has no digest."""
    lines = []
    for member in sorted(members):
        digest = base64.urlsafe_b64encode(hashlib.sha256(members[member]).digest()).rstrip(b"=").decode()
        lines.append(f"{member},sha256={digest},{len(members[member])}")
    return ("\n".join(sorted([*lines, f"{name},,"])) + "\n").encode()
