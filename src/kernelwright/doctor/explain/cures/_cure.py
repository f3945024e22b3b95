# SPDX-License-Identifier: MIT
"""What a cure is, and the mark of the functions that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said


class Cure(NamedTuple):
    """One command to paste, and prose: what comes after it, or what else there is."""

    command: str
    then: str = ""


Make = Callable[["Said"], "Cure | None"]


@dataclass(frozen=True)
class Marked:
    """A function that makes the cure of some causes."""

    codes: tuple[str, ...]
    make: Make


def of(*codes: str) -> Callable[[Make], Marked]:
    """Makes the function the one that is asked for these causes."""

    def marked(make: Make) -> Marked:
        return Marked(codes, make)

    return marked
