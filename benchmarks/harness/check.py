# SPDX-License-Identifier: MIT
"""A call is compared with float64 before it is timed: a wrong result in good time is worth nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from benchmarks.harness.contestants import OURS

if TYPE_CHECKING:
    from benchmarks.harness.contestants import Prepare
    from benchmarks.harness.subject import Subject

SLICE = 1 << 24  # elements compared at a time, so that the comparison needs little memory
PEER = 16  # peers round sums to the tensor's type on the way; this many times our tolerance is still the same function


class WrongResult(AssertionError):
    """A contestant does not compute what the reference does."""


def _copies(arguments: tuple[Any, ...], *, wide: bool = False) -> list[Any]:
    import torch

    return [(a.double() if wide else a.clone()) if isinstance(a, torch.Tensor) else a for a in arguments]


def tensors(result: Any, arguments: list[Any], written: list[int]) -> list[Any]:
    """Outputs, then the arguments that were written to."""
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    return [*outputs, *(arguments[i] for i in written)]


def expected(subject: Subject, arguments: tuple[Any, ...]) -> list[Any]:
    wide = _copies(arguments, wide=True)
    return tensors(subject.overload.reference(*wide), wide, subject.written())


def _excess(found: Any, wanted: Any, relative: float) -> float:
    """The largest error as a share of what is allowed: `relative` of the value itself and of what is usual there."""
    found, wanted = found.reshape(-1), wanted.reshape(-1)
    usual = math.sqrt(sum(float(part.square().sum()) for part in wanted.split(SLICE)) / max(1, wanted.numel()))
    worst = 0.0
    for a, b in zip(found.split(SLICE), wanted.split(SLICE), strict=True):
        share = ((a.double() - b).abs() / (relative * (b.abs() + usual))).nan_to_num(nan=math.inf, posinf=math.inf)
        worst = max(worst, float(share.max()))
    return worst


def check(subject: Subject, name: str, prepare: Prepare, arguments: tuple[Any, ...], right: list[Any]) -> None:
    """Raises WrongResult. `arguments` stay as they are.

    The first call's outputs are filled with NaN and freed; the second gets that memory back from the allocator, so
    that an element it does not write shows.
    """
    import torch

    ours = name == OURS
    written = subject.written() if ours else []
    if ours:
        mine = _copies(arguments)
        for tensor in tensors(prepare(*mine)(), mine, written):
            tensor.fill_(math.nan)
        del tensor, mine
    mine = _copies(arguments)
    outputs = tensors(prepare(*mine)(), mine, written)
    found = [tensor.detach() for tensor in outputs if isinstance(tensor, torch.Tensor) and tensor.numel()]
    wanted = [tensor for tensor in right if isinstance(tensor, torch.Tensor) and tensor.numel()]
    for number, (a, b) in enumerate(zip(found, wanted, strict=False)):
        if a.shape != b.shape:
            raise WrongResult(f"{subject.name}: {name}'s output {number} is {tuple(a.shape)}, not {tuple(b.shape)}")
        relative = subject.op.tolerances[str(a.dtype).removeprefix("torch.")].relative * (1 if ours else PEER)
        if (worst := _excess(a, b, relative)) > 1:
            raise WrongResult(f"{subject.name}: {name}'s output {number} is off by {worst:.3g} times what is allowed")
