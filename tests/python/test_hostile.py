# SPDX-License-Identifier: MIT
"""Odd calls by the thousand, of every operator and of every C function, each kind in a process of its own.

10,000 of each; `--calls 100000` makes more. A failure shows the calls and the seed; `--calls-seed` makes the same again.
They are the same in each run, so that a change is judged by what it changed; `--long` draws others.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_SEED = 20261127


def make(module: str, request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    """Runs the program; returns what it counted. What it was doing when it died is part of the failure."""
    count = request.config.getoption("--calls")
    seed = request.config.getoption("--calls-seed")
    if seed is None:
        seed = secrets.randbits(31) if request.config.getoption("--long") else _SEED
    note = tmp_path / "call"
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, str(count), str(seed), str(note)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=60 + count / 20,
        check=False,
    )
    last = note.read_bytes().partition(b"\0")[0].decode(errors="replace") if note.is_file() else "none"
    assert done.returncode == 0, (
        f"the process ended with {done.returncode}; seed {seed}; last call:\n{last}\n{done.stderr}"
    )
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)
    assert not found["failures"], f"seed {seed}\n" + "\n\n".join(found["failures"])
    assert found["right"] + found["refused"] == count
    assert min(found["right"], found["refused"]) > count / 10, f"too one-sided to show anything: {found}"
    return found


@pytest.mark.torch
def test_operators(request, tmp_path):
    """Right, or refused with an exception that says what was expected; never a crash or a silent wrong number."""
    make("tests.python.hostile.program", request, tmp_path)


def test_c_functions(request, tmp_path):
    """A status and never a crash, whatever the arguments."""
    make("tests.python.hostile.c_program", request, tmp_path)
