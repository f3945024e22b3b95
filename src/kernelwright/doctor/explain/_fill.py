# SPDX-License-Identifier: MIT
"""Puts into a record's command what the log itself names: the package, the library, the compiler's version.

A name is taken only where the log has one of the kind, and only of letters that mean nothing to a shell: whoever wrote
the log does not write the command.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_MOST = 2_000_000  # characters of the log's end: there a build says what failed
_NAME = r"([A-Za-z0-9][A-Za-z0-9._-]{0,60}[A-Za-z0-9])"
_SAID = (
    "failed building (?:editable )?(?:wheel )?for", "building wheel for", "could not build wheels for",
    "failed to build", "no matching distribution found for", "satisfies the requirement", r"projects \(",
)  # fmt: skip
_BEHIND = r"(?=$|, which is|[\s'\"=<>\[()])"
_PACKAGE = re.compile(rf"(?:{'|'.join(_SAID)}) ?['\"]?{_NAME}{_BEHIND}", re.IGNORECASE | re.MULTILINE)
_NO_PACKAGES = frozenset({"installable", "wheels", "wheel", "one", "or", "the", "a", "package", "requirement"})
_LIBRARY = re.compile(r"\b(lib[A-Za-z0-9_+-]+\.so[.\d]*)(?=:? cannot open shared object)")
_GCC = re.compile(
    r"gcc versions? (?:later|newer|greater) than (\d{1,2})\b|version of (?:g\+\+|gcc) \(>=[\d.]+, <(=?)(\d{1,2})\b",
    re.IGNORECASE,
)


def _packages(log: str) -> Iterator[str]:
    yield from (name for name in _PACKAGE.findall(log) if name.lower() not in _NO_PACKAGES)


def _compilers(log: str) -> Iterator[str]:
    """`<12.0` leaves 11, `<=11.5` too."""
    for most, equal, bound in _GCC.findall(log):
        yield most or str(int(bound) - (not equal))


_KINDS: dict[str, Callable[[str], Iterable[str]]] = {
    "<package>": _packages,
    "<library>": _LIBRARY.findall,
    "<version>": _compilers,
}


def filled(command: str, log: str) -> str:
    """The command with what the log names in the places of <package> and the like, as far as it does."""
    for mark, names in _KINDS.items():
        if mark in command:
            found = set(names(log[-_MOST:]))
            command = command.replace(mark, found.pop()) if len(found) == 1 else command
    return command
