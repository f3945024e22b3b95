# SPDX-License-Identifier: MIT
"""How programs of another processor are run here: qemu-user and that processor's C library, from the distribution."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from kernelwright_toolchain.targets import Target


def emulator(target: Target) -> list[str]:
    """What goes before a program of the target's; a skip that names the packages where it cannot be run."""
    if target.machine == platform.machine():
        return []
    qemu = shutil.which(f"qemu-{target.machine}-static") or shutil.which(f"qemu-{target.machine}")
    root = Path("/usr") / target.triple
    if qemu is None or not list(root.glob("lib/ld-linux-*.so.*")):
        pytest.skip(
            f"programs of {target.machine} cannot be run here: no qemu-{target.machine} on PATH or no C library in {root}; "
            "on Debian: apt-get install qemu-user-static libc6-arm64-cross"
        )
    return [qemu, "-L", str(root)]
