# SPDX-License-Identifier: MIT
"""What an editable install looks with, on import, for sources that changed after they were compiled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

_TEMPLATE = Path(__file__).with_name("stale.py.in")


def watch(package: str, root: Path, tops: list[str], inputs: Iterable[str], again: str) -> dict[str, bytes]:
    """The module that looks, which comes first, and what it looks at. `again`: the command to build anew."""
    name = f"_kwt_stale_{package}"
    found = {}
    for path in inputs:
        state = (root / path).stat()
        digest = hashlib.sha256((root / path).read_bytes()).hexdigest()
        found[path] = (state.st_size, state.st_mtime_ns, digest)
    text = _TEMPLATE.read_text(encoding="utf-8")
    for key, value in {"package": package, "tops": repr(tuple(tops)), "inputs": f"{name}.json", "again": again}.items():
        text = text.replace(f"@{key}@", value)
    return {f"{name}.py": text.encode(), f"{name}.json": json.dumps({"root": str(root), "inputs": found}).encode()}
