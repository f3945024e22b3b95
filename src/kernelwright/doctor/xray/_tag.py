# SPDX-License-Identifier: MIT
"""What a wheel promises: its tags, and what it requires; beside what its files need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.xray._serve import numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernelwright.doctor.xray._sources import Opened

# The glibc of the tags that have a name instead of a number (PEP 600 lists them).
_NAMED = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}
_PROMISE = re.compile(r"manylinux(?:_(\d{1,3})_(\d{1,3})|(1|2010|2014))_")


def facts(given: Opened) -> dict[str, Any] | None:
    """None for what is no wheel."""
    if given.kind != "wheel":
        return None
    wheel, metadata = given.text("*.dist-info/WHEEL") or "", given.text("*.dist-info/METADATA") or ""
    tags = re.findall(r"^Tag:\s*(\S+)", wheel, re.MULTILINE)
    header = metadata.split("\n\n", 1)[0]
    return {
        "tags": tags or [given.path.name.removesuffix(".whl").split("-", 2)[-1]],
        "version": next(iter(re.findall(r"^Version:\s*(\S+)", header, re.MULTILINE)), None),
        "requires": re.findall(r"^Requires-Dist:\s*([^\n;]+?)\s*$", header, re.MULTILINE),
    }


def is_pure(given: Opened, wheel: dict[str, Any] | None) -> bool:
    """Whether it is a wheel that promises to hold nothing that was compiled."""
    return (
        wheel is not None
        and given.text("*.dist-info/WHEEL") is not None
        and all(tag.endswith("-any") for tag in wheel["tags"])
    )


def promised_glibc(tags: Iterable[str]) -> tuple[int, int] | None:
    """The oldest glibc on which an installer takes the wheel; None if no tag says one."""
    found = [
        (int(match[1]), int(match[2])) if match[1] else _NAMED[match[3]]
        for tag in tags
        for match in _PROMISE.finditer(tag)
    ]
    return min(found, default=None)


def needed_glibc(files: Iterable[dict[str, Any]]) -> tuple[str, str] | None:
    """(release, file) of the highest that any file needs."""
    found = [(numbers(file["glibc"]), file["glibc"], file["name"]) for file in files if file.get("glibc")]
    return max(found)[1:] if found else None
