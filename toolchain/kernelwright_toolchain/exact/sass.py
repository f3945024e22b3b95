# SPDX-License-Identifier: MIT
"""Machine code of a kernel as text, by NVIDIA's disassembler out of the lock, fetched when it is first needed."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from kernelwright_toolchain.errors import ProvisionError
from kernelwright_toolchain.locking.wanted import lock_of
from kernelwright_toolchain.providers import pip

LOCK = "sass"  # the dependency group
_CODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;?\s*(?:/\*.*)?$")
_FUNCTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)|^//-+ \.text\.(\S+) -+")


def disassembler() -> Path:
    """nvdisasm, provisioned."""
    home = pip.install(lock_of(LOCK))
    found = sorted(home.glob("nvidia/**/bin/nvdisasm"))
    if not found:
        raise ProvisionError(f"{lock_of(LOCK).name} was installed into {home}, but there is no nvdisasm in it")
    if not os.access(found[0], os.X_OK):
        found[0].chmod(0o755)
    return found[0]


def listing(cubin: bytes) -> dict[str, list[str]]:
    """kernel -> its instructions, without addresses; labels of branches stay."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as scratch:
        path = Path(scratch) / "image.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([str(disassembler()), "-c", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProvisionError(f"nvdisasm could not read an image (exit code {done.returncode}):\n{done.stderr.strip()}")
    found: dict[str, list[str]] = {}
    kernel = ""
    for line in done.stdout.splitlines():
        if begins := _FUNCTION.match(line):
            kernel = begins[1] or begins[2]
            found.setdefault(kernel, [])
        elif kernel and (code := _CODE.match(line)):
            found[kernel].append(code[1].rstrip(" ;"))
    return found
