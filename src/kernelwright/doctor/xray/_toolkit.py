# SPDX-License-Identifier: MIT
"""Which CUDA release built a file: from whatever in it tells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.xray._serve import capability

if TYPE_CHECKING:
    from collections.abc import Iterable

_IN_A_PATH = re.compile(r"\bcuda-(\d{1,2}\.\d{1,2})\b")
_RUNTIME = re.compile(r"libcudart\.so\.(\d{1,3})")


def of_ptx(version: str, toolkits: dict[str, Any]) -> str:
    """The release that writes this version of PTX, or between which releases of the table it lies."""
    wanted = capability(version)
    by_version = sorted((capability(kit["ptx"]), kit["release"]) for kit in toolkits.values())
    same = [release for written, release in by_version if written == wanted]
    if same:
        return str(same[0])
    older = [release for written, release in by_version if written < wanted]
    newer = [release for written, release in by_version if written > wanted]
    return " and ".join([*(f"after {one}" for one in older[-1:]), *(f"before {one}" for one in newer[:1])])


def evidence(facts: dict[str, Any], notes: Iterable[str], toolkits: dict[str, Any]) -> list[dict[str, str]]:
    """What each place in the file says, the surest first."""
    found = [{"release": note, "from": "the compiler's note in the code"} for note in notes]
    versions = {one for row in facts["code"] if row["kind"] == "ptx" for one in row["versions"]}
    found += [{"release": of_ptx(one, toolkits), "from": f"PTX {one}"} for one in sorted(versions, key=capability)]
    paths = {match[1] for entry in facts.get("runpath", []) for match in _IN_A_PATH.finditer(entry["path"])}
    found += [{"release": one, "from": "RUNPATH"} for one in sorted(paths)]
    runtimes = [match for name in facts.get("needed", []) if (match := _RUNTIME.match(name))]
    return found + [{"release": match[1], "from": match[0]} for match in runtimes]
