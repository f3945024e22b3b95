# SPDX-License-Identifier: MIT
"""What is timed: one case of one operator, found through the operators' records; nothing here lists any."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from kernelwright import ops
from kernelwright.ops._calls import calls

if TYPE_CHECKING:
    from collections.abc import Iterable

QUICK_BYTES = 1 << 26  # of the larger of the two cases that --quick takes


@dataclass(frozen=True)
class Subject:
    op: Any
    case: Any

    @property
    def name(self) -> str:
        return f"{self.op.name}/{self.case}"

    @property
    def overload(self) -> Any:
        return self.op.overload(self.case.overload)

    @property
    def bytes(self) -> int:
        return int(self.op.bytes(self.case))

    @property
    def flops(self) -> int:
        return int(self.op.flops(self.case))

    @property
    def rows(self) -> int:
        return math.prod(self.case.shape[:-1])

    @property
    def cols(self) -> int:
        return int(self.case.shape[-1])

    def target(self) -> Any:
        """The torch operator."""
        import torch

        return getattr(getattr(torch.ops.kernelwright, self.op.name), self.case.overload)

    def call(self) -> Any:
        """What `kernelwright.<op>` and derivatives call: the operator, past the dispatcher where nobody watches."""
        return getattr(getattr(calls, self.op.name), self.case.overload)

    def written(self) -> list[int]:
        """Positions of the arguments that it writes to."""
        arguments = self.target()._schema.arguments  # noqa: SLF001 - torch has no public way to ask
        return [i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]


def _quick(subjects: list[Subject]) -> list[Subject]:
    """Of each overload the smallest case and a middling one, in the 16-bit type that models use."""
    chosen = []
    for overload in dict.fromkeys(subject.case.overload for subject in subjects):
        of_it = [s for s in subjects if s.case.overload == overload]
        of_it = [s for s in of_it if s.case.dtype == "bfloat16"] or of_it
        smallest = min(of_it, key=lambda s: s.bytes)
        middling = min(of_it, key=lambda s: abs(math.log(s.bytes / QUICK_BYTES)))
        chosen += list(dict.fromkeys((smallest.name, middling.name)))
    return [subject for subject in subjects if subject.name in chosen]


def choose(names: Iterable[str] | None, globs: Iterable[str], *, quick: bool) -> list[Subject]:
    """The cases of these operators (None: all) whose name matches a glob, in the records' order; never none."""
    known = ops.names()
    wanted = list(names) if names is not None else list(known)
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"no operator {unknown[0]!r}; there are {', '.join(known)}")
    found = []
    for name in wanted:
        op = ops.record(name)
        cases = [Subject(op, case) for case in op.benchmarks]
        cases = [s for s in cases if any(fnmatchcase(part, g) for g in globs for part in (s.name, str(s.case)))]
        found += _quick(cases) if quick else cases
    if not found:
        some = ", ".join(str(case) for name in wanted for case in ops.record(name).benchmarks[:2])
        raise SystemExit(f"no case matches {' '.join(globs)!r}; names are like {some}")
    return found
