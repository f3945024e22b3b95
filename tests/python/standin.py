# SPDX-License-Identifier: MIT
"""The stand-in for NVIDIA's driver, tests/cpp/standin, for processes of Python: it answers and runs no kernel."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.emulator.build import compiler

SOURCE = Path(__file__).resolve().parents[1] / "cpp/standin/libcuda.c"


def build(to: Path, form: int = 12) -> Path:
    """The directory with its libcuda.so.1; `form` as in the source."""
    to.mkdir(parents=True, exist_ok=True)
    command = [*compiler(), "-x", "c", "-std=gnu11", f"-DSTANDIN_FORM={form}", "-fPIC", "-shared", "-fvisibility=hidden",
               "-Wl,-soname,libcuda.so.1", str(SOURCE), "-o", str(to / "libcuda.so.1")]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True)
    return to
