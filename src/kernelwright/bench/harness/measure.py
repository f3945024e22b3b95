# SPDX-License-Identifier: MIT
"""One case: everybody checked, then timed in turns beside a copy of as many bytes."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.bench.harness.check import check, expected
from kernelwright.bench.harness.contestants import COPY, OURS, contestants
from kernelwright.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kernelwright.bench.harness.contestants import Prepare
    from kernelwright.bench.harness.subject import Subject

CHECK_BYTES = 10  # float64 copies and what the reference makes of them, for each byte that a case moves
FEW_FLOPS = 16  # a byte: below it memory decides on every processor there is
ROUNDS, QUICK_ROUNDS = 25, 9


@dataclass
class Result:
    """Microseconds a call, by contestant, `copy` among them; or why there are none."""

    subject: Subject
    us: dict[str, float] = field(default_factory=dict)
    limit: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def ours(self) -> float:
        return self.us[OURS]

    @property
    def share(self) -> float:
        """Of the limit."""
        return self.limit / self.ours

    def against(self, peer: str) -> float | None:
        """How many times faster than the peer."""
        return self.us[peer] / self.ours if peer in self.us else None

    def peers(self) -> dict[str, float]:
        return {name: us for name, us in self.us.items() if name not in {OURS, COPY}}


@cache
def _flops_rate(dtype: str, device: Any) -> float:
    """Operations a microsecond of a large matrix product: what arithmetic can reach at most."""
    size = 8192 if device.kind == "cuda" else 1024
    a, b = (torch.randn(size, size, device=device.kind).to(getattr(torch, dtype)) for _ in range(2))
    took, _ = device.times({"product": lambda: [lambda: a @ b] * 4}, QUICK_ROUNDS)
    return 2 * size**3 / took["product"]


def _limit(subject: Subject, copy_us: float, device: Any) -> float:
    """The time below which no implementation can be: its bytes, or its arithmetic where that is the longer."""
    if subject.flops < FEW_FLOPS * subject.bytes:
        return copy_us
    return max(copy_us, subject.flops / _flops_rate(subject.case.dtype, device))


def _sets(arguments: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    def copied() -> tuple[Any, ...]:
        return tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in arguments)

    return [arguments, *(copied() for _ in range(count - 1))]


def _check_all(subject: Subject, known: dict[str, Prepare], arguments: tuple[Any, ...], notes: list[str]) -> None:
    """A peer that does not run, or is wrong, is noted and left out: torch's float16 sums are at times. Ours ends it."""
    right = expected(subject, arguments)
    for name, prepare in list(known.items()):
        try:
            check(subject, name, prepare, arguments, right)
        except Exception as error:
            if name == OURS:
                raise
            notes.append(f"{name} failed: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}")
            del known[name]


def _time_all(
    subject: Subject, device: Any, known: dict[str, Prepare], arguments: tuple[Any, ...], rounds: int
) -> tuple[dict[str, float], dict[str, str]]:
    count = device.sets(subject.bytes)
    sets = _sets(arguments, count)
    again = -(-device.calls(subject.bytes, subject.flops) // count)

    def calls(prepare: Prepare) -> Callable[[], list[Callable[[], Any]]]:
        return lambda: [prepare(*own) for own in sets] * again

    with torch.no_grad():
        entries = {name: calls(prepare) for name, prepare in known.items()}
        entries[COPY] = lambda: device.copy(subject.bytes, count) * again
        return device.times(entries, rounds)


def measure(
    subject: Subject,
    device: Any,
    wanted: Callable[[str], bool],
    *,
    quick: bool,
    unchecked: Mapping[str, Prepare] | None = None,
) -> Result:
    """Raises WrongResult if ours computes something else. `unchecked` take turns too, and are not asked for results."""
    result = Result(subject)
    if CHECK_BYTES * subject.bytes > device.memory():
        result.notes.append(f"needs {CHECK_BYTES * subject.bytes >> 20} MB, {device.memory() >> 20} MB are free")
        return result
    generator = torch.Generator(device.kind).manual_seed(secrets.randbits(32))
    arguments = subject.op.make(subject.case, device.kind, generator)
    known, result.notes = contestants(subject, device.kind, wanted)
    try:
        _check_all(subject, known, arguments, result.notes)
    except Unsupported as error:
        result.notes.append(str(error))
        return result
    device.clean()
    known |= unchecked or {}
    result.us, said = _time_all(subject, device, known, arguments, QUICK_ROUNDS if quick else ROUNDS)
    result.notes += [f"{name}: {why}" for name, why in said.items()]
    result.limit = _limit(subject, result.us[COPY], device)
    device.clean()
    return result
