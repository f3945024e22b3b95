# SPDX-License-Identifier: MIT
"""A project's sources in a place of their own, all of one date: what git knows, or all but what builds leave."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

EPOCH = 315_532_800
_LEFT_OUT = {
    ".kw", ".git", "dist", "build", "__pycache__", ".venv", "venv", ".nox", ".tox", "kernelwright-gcc",
}  # fmt: skip


def files(root: Path) -> list[Path]:
    """Relative to the root, sorted; what is ignored by git is no source."""
    command = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-zco", "--exclude-standard", "--", "."]
    found: list[Path] = []
    if shutil.which("git"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = [Path(name) for name in done.stdout.split("\0") if name] if done.returncode == 0 else []
    if not found:
        for folder, below, names in os.walk(root):
            below[:] = [name for name in below if name not in _LEFT_OUT]
            found += [(Path(folder) / name).relative_to(root) for name in names]
    return sorted(path for path in found if (root / path).is_file() and not _LEFT_OUT & set(path.parts))


def digests(root: Path) -> dict[str, str]:
    return {path.as_posix(): hashlib.sha256((root / path).read_bytes()).hexdigest() for path in files(root)}


def copy(root: Path, to: Path) -> Path:
    """Fresh; modes without what a umask decided, every date the same: headers' are written into line tables."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for path in files(root):
        place = to / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, place)
        place.chmod(0o755 if (root / path).stat().st_mode & 0o100 else 0o644)
    for path in [*to.rglob("*"), to]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (EPOCH, EPOCH))
    return to
