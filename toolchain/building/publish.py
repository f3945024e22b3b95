# SPDX-License-Identifier: MIT
"""What lies beside the wheels in dist/: a statement about each, and SHA256SUMS over all."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

from toolchain.files import PART, write_if_changed
from toolchain.wheel import statement

SUMS = "SHA256SUMS"


def inner_statement(wheel: Path) -> bytes:
    """The statement in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(f".dist-info/{statement.NAME}"))
        return archive.read(name)


def publish(wheel: Path) -> None:
    """The statement whose subject is this wheel, and the sums of all that is in its directory now."""
    for half in [*wheel.parent.glob(".*.whl.part"), *wheel.parent.glob(f"{PART}*")]:  # a killed writer's
        half.unlink(missing_ok=True)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    recipe = json.loads(inner_statement(wheel))["predicate"]
    about = wheel.with_name(wheel.name + statement.ABOUT_WHEEL)
    write_if_changed(about, statement.statement({wheel.name: digest}, recipe))
    for left in wheel.parent.glob(f"*{statement.ABOUT_WHEEL}"):  # of wheels that are gone
        if not left.with_name(left.name.removesuffix(statement.ABOUT_WHEEL)).is_file():
            left.unlink()
    files = sorted([*wheel.parent.glob("*.whl"), *wheel.parent.glob(f"*{statement.ABOUT_WHEEL}")])
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    write_if_changed(wheel.parent / SUMS, "".join(lines).encode())
