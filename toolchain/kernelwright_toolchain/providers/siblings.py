# SPDX-License-Identifier: MIT
"""What another Python's directory of the same lock has already: a compiler need not be fetched and kept for each.

locks/files.json says which files are the same for every Python, and how big they are.
"""

from __future__ import annotations

import csv
import json
import platform
import re
import sys
from pathlib import Path
from typing import Any

from kernelwright_toolchain.files import link_or_copy
from kernelwright_toolchain.project import project

BIG = 10_000_000  # bytes; what is smaller is fetched again sooner than looked for


def rows(lock: Path, machine: str = "") -> list[dict[str, Any]]:
    """The files of this lock that this Python takes on this machine, as far as locks/files.json names them."""
    path = project().data("locks/files.json")
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    fitting = ("-any.whl", f"_{machine or platform.machine()}.whl")
    found = [row for row in known.get(f"locks/{lock.name}", []) if row["file"].endswith(fitting)]
    return [row for row in found if python in row.get("pythons", [python])]


def _installed(place: Path, info: str) -> list[str] | None:
    """What a package put beneath `place`; None if it is not there, or has programs of its own outside its folders.

    A script is no such program: it names the Python that it was made by, and is left out.
    """
    try:
        lines = (place / info / "RECORD").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    names = [row[0] for row in csv.reader(lines)]
    outside = [place / name.removeprefix("../../") for name in names if name.startswith("../")]
    if any(not path.is_file() or path.read_bytes()[:2] != b"#!" for path in outside):
        return None
    return [name for name in names if not name.startswith("../")]


def others(place: Path) -> list[Path]:
    """The directories of this lock that other Pythons have filled."""
    stem = place.name.removesuffix(f"-{sys.implementation.cache_tag}")
    return [path for path in sorted(place.parent.glob(f"{stem}-*")) if path != place and ".part-" not in path.name]


def at_hand(lock: Path, place: Path) -> dict[str, tuple[Path, list[str]]]:
    """Package of this lock -> a directory that has it, and what it is there."""
    found = {}
    for row in rows(lock):
        if row["size"] >= BIG and "pythons" not in row:
            name, version = row["file"].split("-")[:2]
            for other in others(place):
                if names := _installed(other, f"{name}-{version}.dist-info"):
                    found[name] = (other, names)
    return found


def take(lock: Path, place: Path, part: Path) -> str:
    """Links into `part` what is at hand for `place`; the rest of the lock's text."""
    text = lock.read_text(encoding="utf-8")
    for package, (other, names) in at_hand(lock, place).items():
        for name in names:
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(str(other / name), str(part / name))
        pin = re.escape(package.replace("_", "-"))
        text = re.sub(rf"^{pin}==.*\n(?:[ \t]+\S.*\n)*", "", text, flags=re.MULTILINE)
    return text
