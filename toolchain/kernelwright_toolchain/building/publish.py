# SPDX-License-Identifier: MIT
"""What lies beside the wheels in dist/: a statement about each, and SHA256SUMS over all."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

from kernelwright_toolchain.files import PART, write_if_changed
from kernelwright_toolchain.wheel import statement
from kernelwright_toolchain.wheel.recipe import Recipe

SUMS = "SHA256SUMS"


def inner_statement(wheel: Path) -> bytes:
    """The statement in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(f".dist-info/{statement.NAME}"))
        return archive.read(name)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _still_right(sums: Path) -> dict[str, str]:
    """name -> sha256 of what was listed before and still has these bytes.

    What nobody listed, or what changed afterwards, is not vouched for: it may have failed its check, or be damaged.
    """
    if not sums.is_file():
        return {}
    lines = sums.read_text(encoding="utf-8", errors="replace").splitlines()
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    return {
        name: digest
        for name, digest in listed.items()
        if Path(name).name == name and _digest(sums.parent / name) == digest
    }


def _is_about(about: Path, name: str, digest: str) -> bool:
    """Whether this statement is one about these bytes."""
    try:
        read = json.loads(about.read_text(encoding="utf-8"))
        right = [{"name": name, "digest": {"sha256": digest}}]
        return bool(read["predicateType"] == statement.BESIDE and read["subject"] == right)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def publish(wheel: Path, made: Callable[[], Recipe]) -> None:
    """The statement whose subject is this wheel; and both in the sums, with what was listed there before.

    `made` gives what is known of the build, and is asked only where no statement about these bytes is there.
    """
    for half in [*wheel.parent.glob(".*.whl.part"), *wheel.parent.glob(f"{PART}*")]:  # a killed writer's
        half.unlink(missing_ok=True)
    digest = _digest(wheel)
    about = wheel.with_name(wheel.name + statement.ABOUT_WHEEL)
    if not _is_about(about, wheel.name, digest):
        known = {"recipe": json.loads(inner_statement(wheel))["predicate"], "made": made()}
        write_if_changed(about, statement.statement({wheel.name: digest}, known, statement.BESIDE))
    sums = wheel.parent / SUMS
    listed = {**_still_right(sums), wheel.name: digest, about.name: _digest(about)}
    for left in wheel.parent.glob(f"*{statement.ABOUT_WHEEL}"):
        if left.name.removesuffix(statement.ABOUT_WHEEL) not in listed:  # that wheel is gone, or another one by now
            left.unlink()
            listed.pop(left.name, None)
    write_if_changed(sums, "".join(f"{listed[name]}  {name}\n" for name in sorted(listed)).encode())
