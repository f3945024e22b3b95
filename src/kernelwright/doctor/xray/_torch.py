# SPDX-License-Identifier: MIT
"""Which releases of torch an extension's symbols, its runtime and its requirement fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kernelwright.doctor._check import Finding, Grade

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernelwright.doctor.xray._place import Torch

Release = tuple[int, ...]
# Symbols that tell the release: one whose arguments changed has another name from then on. (first, last) that has it.
_MARKS: dict[str, tuple[Release | None, Release | None]] = {
    "_ZN3c104cuda9SetDeviceEi": (None, (2, 2)),
    "_ZN3c104cuda9SetDeviceEa": ((2, 3), (2, 7)),
    "_ZN3c104cuda9SetDeviceEab": ((2, 8), None),
    "_ZN3c1017RegisterOperatorsD1Ev": (None, (2, 99)),
}
# PyPI's builds took the older of libstdc++'s two interfaces until this release, and the newer from the next one on.
_LAST_OLD_ABI, _FIRST_NEW_ABI = (2, 6), (2, 7)


def marks(symbols: Iterable[str]) -> list[str]:
    """Those of the symbols that tell a release."""
    return sorted(set(symbols) & set(_MARKS))


def fit(facts: dict[str, Any]) -> tuple[Release | None, Release | None]:
    """(first, last) release whose symbols a library wants, as far as they tell; None for an end that is open."""
    wanted = facts.get("torch") or {}
    if not wanted.get("unstable"):
        return None, None
    first: list[Release] = [one[0] for mark in wanted.get("marks", []) if (one := _MARKS[mark])[0]]
    last: list[Release] = [one[1] for mark in wanted.get("marks", []) if (one := _MARKS[mark])[1]]
    if wanted["old_strings"] and not wanted["cxx11_abi"]:
        last.append(_LAST_OLD_ABI)
    return max(first, default=None), min(last, default=None)


def shown(release: Iterable[int]) -> str:
    return ".".join(map(str, release))


def in_words(facts: dict[str, Any]) -> str:
    """ "torch 2.3 to 2.6" and the like; "" where nothing tells."""
    first, last = fit(facts)
    wanted = facts.get("torch") or {}
    if not wanted.get("unstable"):
        return ""
    if first and last:
        return f"torch {shown(first)} to {shown(last)}" if first != last else f"torch {shown(first)}"
    if first or last:
        return f"torch {shown(first)} or newer" if first else f"torch {shown(last or ())} or older"
    if wanted["cxx11_abi"]:
        return (
            f"torch {shown(_FIRST_NEW_ABI)} or newer of PyPI, or an older one with the newer C++ "
            "interface (conda, NVIDIA)"
        )
    return ""


def _allows(one: str, release: Release) -> bool:
    """Whether one clause of a requirement takes a release, as far as that is given."""
    found = re.fullmatch(r"(==|!=|>=|<=|>|<|~=)\s*([\d.]+)(\.\*)?(?:\+\w+)?", one.strip())
    if not found:
        return True
    sign, text = found[1], found[2].strip(".")
    wanted = tuple(int(part) for part in text.split("."))
    size = min(len(wanted), len(release))
    near, asked = wanted[:size], release[:size]
    return {
        "==": asked == near,
        "!=": asked != near or size < len(wanted),
        ">=": asked >= near,
        "<=": asked <= near,
        ">": asked > near or (asked == near and len(release) != len(wanted)),
        "<": asked < near or (asked == near and len(release) < len(wanted)),
        "~=": asked >= near and asked[: len(wanted) - 1] == wanted[: len(wanted) - 1][:size],
    }[sign]


def requirement(requires: Iterable[str], torch: Torch | None) -> Iterator[Finding]:
    """What the wheel's metadata says of the torch that is asked about."""
    for text in requires:
        found = re.fullmatch(r"torch\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*", text)
        if found and torch and not all(_allows(one, torch.release) for one in found[1].split(",") if one.strip()):
            yield Finding(
                "KW-096", Grade.FAILS, f"it requires torch{found[1].strip()}; torch {torch.text} is asked about"
            )


def judged(facts: dict[str, Any], torch: Torch | None) -> Iterator[Finding]:
    """What the symbols and the runtime of one library say of the torch that is asked about."""
    if torch is None:
        return
    first, last = fit(facts)
    asked = torch.release[:2]
    if (first and asked < first) or (last and asked > last):
        yield Finding(
            "KW-020", Grade.FAILS, f"its symbols are those of {in_words(facts)}; torch {torch.text} is asked about"
        )
    runtimes = [
        match[1] for name in facts.get("needed", []) if (match := re.fullmatch(r"libcudart\.so\.(\d{1,3})[\d.]*", name))
    ]
    if torch.cuda and runtimes and int(runtimes[0]) != torch.cuda:
        yield Finding(
            "KW-050",
            Grade.FAILS,
            f"it is linked to the runtime of CUDA {runtimes[0]}, torch {torch.text} brings that of {torch.cuda}",
        )
