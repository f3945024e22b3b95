# SPDX-License-Identifier: MIT
"""Which cases are timed: on a GPU those that models have, on a CPU what it computes in a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.bench.harness import subject
from kernelwright.bench.harness.contestants import COMPILE, EAGER, contestants
from kernelwright.bench.harness.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

CPU_BYTES, CPU_FLOPS = 1 << 24, 1 << 30  # of a case that is timed on a CPU


def _light(one: Subject) -> bool:
    return one.bytes <= CPU_BYTES and one.flops <= CPU_FLOPS


def small(one: Subject) -> Subject:
    """The smallest call of whole vectors of the same overload and type, as the tests have it."""
    return Subject(one.op, one.op.cases_for("aligned", one.case.overload, one.case.dtype)[0])


def beside(one: Subject, device: str, columns: Container[str]) -> set[str]:
    """Who can take part in a case. torch does where the record says what one writes in it to the same end; elsewhere
    the definition in torch would stand in, which nobody runs."""
    names, _ = contestants(one, device, columns.__contains__)
    of_torch = set() if one.case.overload in one.op.eager else {EAGER, COMPILE}
    return {name for name in names if name in columns} - of_torch


def choose(
    names: Iterable[str] | None, globs: Sequence[str], device: str, *, whole: bool, quick: bool
) -> list[Subject]:
    """In the operators' order. `whole`: every case of the records; `quick`: a small one an overload."""
    found = subject.choose(names, globs, quick=not whole)
    if quick:
        return list({(s.op.name, s.case.overload): small(s) for s in reversed(found)}.values())[::-1]
    if device == "cuda" or whole:
        return found
    return list({one.name: one for s in found if (one := s if _light(s) else small(s))}.values())
