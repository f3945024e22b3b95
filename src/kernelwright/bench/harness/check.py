# SPDX-License-Identifier: MIT
"""A call is compared with float64 before it is timed: a wrong result in good time is worth nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.bench.harness.contestants import OURS

if TYPE_CHECKING:
    from kernelwright.bench.harness.contestants import Prepare
    from kernelwright.bench.harness.subject import Subject

SLICE = 1 << 24  # elements compared at a time, so that the comparison needs little memory
PEER = 16  # peers round sums to the tensor's type on the way; this many times our tolerance is still the same function


class WrongResult(AssertionError):
    """A contestant does not compute what the reference does."""


def _copies(arguments: tuple[Any, ...], *, wide: bool = False) -> list[Any]:
    import torch

    def copy(tensor: Any) -> Any:
        return tensor.double() if wide and tensor.is_floating_point() else tensor.clone()

    return [copy(a) if isinstance(a, torch.Tensor) else a for a in arguments]


def _spoil(tensor: Any) -> None:
    """What no result is: NaN, or for codes a value that tells: bytes, which fit signed types too."""
    import torch

    if tensor.is_floating_point():
        tensor.fill_(math.nan)
    else:
        tensor.view(torch.uint8).fill_(0xA5)


def tensors(result: Any, arguments: list[Any], written: list[int]) -> list[Any]:
    """Outputs, then the arguments that were written to."""
    outputs = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
    return [*outputs, *(arguments[i] for i in written)]


def expected(subject: Subject, arguments: tuple[Any, ...]) -> list[Any]:
    wide = _copies(arguments, wide=True)
    right = tensors(subject.overload.reference(*wide), wide, subject.written())
    # torch subtracts no floats of 8 bits.
    return [tensor.double() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor for tensor in right]


def _bounds(subject: Subject, arguments: tuple[Any, ...], right: list[Any], found: list[Any], ours: bool) -> list[Any]:
    """How far each tensor may be from what is right.

    Ours: what the record allows. Peers: `PEER` times the rounding of the value itself and of what is usual there; where
    results are exact, what ours are allowed.
    """
    import torch

    def tolerance(tensor: Any) -> Any:
        return subject.op.tolerances[str(tensor.dtype).removeprefix("torch.")]

    def relative(tensor: Any) -> float:
        return float(tolerance(tensor).relative)

    def usual(tensor: Any) -> float:
        squares = sum(float(part.double().square().sum()) for part in tensor.reshape(-1).split(SLICE))
        return math.sqrt(squares / max(1, tensor.numel()))

    count = len(right) - len(subject.written())
    wide, dtypes = _copies(arguments, wide=True), [tensor.dtype for tensor in found[:count]]
    if not ours:
        of_peers = [PEER * relative(a) * (b.abs() + usual(b)) for a, b in zip(found, right, strict=False)]
        if not count:  # what is written in place is all there is, codes among it
            return [PEER * tolerance(a).absolute + bound for a, bound in zip(found, of_peers, strict=True)]
        if any(relative(a) for a in found) or len(found) < count:
            return of_peers
        bounds = subject.op.allowed(subject.case.overload, wide, right[:count], dtypes)
        return [torch.maximum(a, b.double()) for a, b in zip(of_peers, bounds, strict=True)]
    bounds = list(subject.op.allowed(subject.case.overload, wide, right[:count], dtypes))
    in_place = zip(found[count:], right[count:], strict=True)
    return bounds + [tolerance(a).absolute + relative(a) * b.abs() for a, b in in_place]


def _excess(found: Any, wanted: Any, bound: Any) -> float:
    """The largest error as a share of what is allowed; infinite where anything is not a number."""
    worst = 0.0
    for a, b, allowed in zip(*(t.reshape(-1).split(SLICE) for t in (found, wanted, bound)), strict=True):
        share = ((a.double() - b).abs() / (allowed.double() + math.ulp(0))).nan_to_num(nan=math.inf, posinf=math.inf)
        worst = max(worst, float(share.max()))
    return worst


def check(subject: Subject, name: str, prepare: Prepare, arguments: tuple[Any, ...], right: list[Any]) -> None:
    """Raises WrongResult. `arguments` stay as they are.

    Our first call's outputs are spoilt and freed; the second gets that memory back from the allocator, so
    that an element it does not write shows.
    """
    ours = name == OURS
    # Peers have ways of their own to write in place; where nothing is returned there is nothing else to compare.
    written = subject.written() if ours or len(right) == len(subject.written()) else []
    if ours:
        mine = _copies(arguments)
        for tensor in tensors(prepare(*mine)(), mine, written):
            _spoil(tensor)
        del tensor, mine
    mine = _copies(arguments)
    found = [tensor.detach() for tensor in tensors(prepare(*mine)(), mine, written)]
    bounds = _bounds(subject, arguments, right, found, ours)
    for number, (a, b, bound) in enumerate(zip(found, right, bounds, strict=ours)):
        if a.shape != b.shape:
            raise WrongResult(f"{subject.name}: {name}'s output {number} is {tuple(a.shape)}, not {tuple(b.shape)}")
        if a.numel() and (worst := _excess(a, b, bound)) > 1:
            raise WrongResult(f"{subject.name}: {name}'s output {number} is off by {worst:.3g} times what is allowed")
