# SPDX-License-Identifier: MIT
"""locks/torch.json: the sha256 of torch's own builds for CPUs, by version, Python and machine.

They are no packages of PyPI's, so no lock of pip's has them; the rows come from the files and from what others have
published of them. A row that is not there is not locked: what the index gives is then hashed when it is installed.
"""

from __future__ import annotations

import json
import platform
import sys

from kernelwright_toolchain.errors import ProvisionError
from kernelwright_toolchain.locking.wanted import lock_of
from kernelwright_toolchain.project import project

TABLE = "locks/torch.json"
NEEDS = "torch-needs"  # the dependency group of all that torch needs besides


def place() -> str:
    """This Python and machine, as a row is called."""
    return f"{sys.version_info[0]}.{sys.version_info[1]} {platform.machine()}"


def known() -> dict[str, dict[str, str]]:
    """version -> row -> sha256."""
    found: dict[str, dict[str, str]] = json.loads(project().data(TABLE).read_text(encoding="utf-8"))
    return found


def lock(version: str, digest: str) -> str:
    """The text for pip of this torch and all that it needs, "" where its row is not locked.

    `digest`: of the file that the index gives; ProvisionError if the row has another.
    """
    locked = known().get(version, {}).get(place())
    if locked is None:
        return ""
    if locked != digest:
        raise ProvisionError(
            f"the index gives another file for torch {version} than {TABLE} has for Python {place()}: sha256 {digest}, "
            f"not {locked}. Try another index (PIP_EXTRA_INDEX_URL); if both give this one, do not use it"
        )
    return f"torch=={version} --hash=sha256:{locked}\n{lock_of(NEEDS).read_text(encoding='utf-8')}"
