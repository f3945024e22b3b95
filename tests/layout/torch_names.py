# SPDX-License-Identifier: MIT
"""Reads tests/layout/torch-names.txt, and what modules have: for the rule about it, and for its comparison with a torch."""

from __future__ import annotations

import re
import types

NAMES = "tests/layout/torch-names.txt"
_ROW = re.compile(r"^(?P<name>\.?\w[\w.]*)(?: since (?P<since>[\d.]+))?(?: in builds for GPUs)?$", re.MULTILINE)


def rows(text: str) -> dict[str, str | None]:
    """Each recorded name, with the release that brought it where that is newer than the oldest."""
    return {row["name"]: row["since"] for row in _ROW.finditer(text)}


def members(module: types.ModuleType) -> set[str]:
    """What a module and its classes have, and what these give their instances at first."""
    classes = [part for part in vars(module).values() if issubclass(type(part), type)]  # torch has objects that warn
    firsts = [getattr(part.__init__, "__code__", None) for part in classes]
    return set(dir(module)).union(*map(dir, classes), *(first.co_names for first in firsts if first))
