# SPDX-License-Identifier: MIT
"""What tests of the conda locks share: a copy of the files, an interpreter with conda-lock, what it says of a copy."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright_toolchain import targets
from kernelwright_toolchain.locking import conda
from tests.tree import ROOT

FILES = (*conda.made(targets.load()), *conda.LOCKS.values(), "pyproject.toml")
X86, PY312 = conda.environment_file("linux-64"), conda.LOCKS["3.12"]


def copied(place: Path) -> Path:
    for name in FILES:
        shutil.copy(ROOT / name, place / name)
    return place


def interpreter() -> str:
    """One with conda-lock."""
    if importlib.util.find_spec("conda_lock"):
        return sys.executable
    lock = (ROOT / "locks" / "conda.txt").stat().st_mtime
    made = [path for path in (ROOT / ".kw" / "environments").glob("conda-*/complete") if path.stat().st_mtime > lock]
    if not made:
        pytest.skip("conda-lock is not here: `./kw lint` makes the environment of locks/conda.txt, and runs this file")
    return str(max(made, key=lambda path: path.stat().st_mtime).parent / "bin" / "python")


def asker(python: str, tree: Path) -> Callable[..., list[str]]:
    """What conda-lock finds wrong in a copy of the files, after some text of one of them was replaced."""

    def ask(name: str = conda.LOCK, old: str = "", new: str = "", count: int = 1) -> list[str]:
        text = (tree / name).read_text()
        assert old in text
        (tree / name).write_text(text.replace(old, new, count))
        command = [python, "-m", "kernelwright_toolchain.locking.conda_check", str(tree)]
        done = subprocess.run(command, cwd=ROOT / "toolchain", capture_output=True, text=True, check=False)
        return done.stdout.split() and done.stdout.splitlines() if done.returncode == 0 else [done.stderr]

    return ask
