# SPDX-License-Identifier: MIT
"""From tensors to a call of kw_rope_tensors, and what such calls are refused for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._handles import handles
from kernelwright.ops._tensors import (
    placement,
    reaches,
    refuse_freed,
    refuse_inference,
    refuse_overlap,
    require_dtype,
    span,
)
from kernelwright.ops.attention import _rope_reference as reference
from kernelwright.ops.attention._checks import FLOATS
from kernelwright.ops.attention._launch import adjacent

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

NAME, MOST_D = "rope", 65536


def _floats() -> tuple[Any, ...]:
    import torch

    return tuple(getattr(torch, name) for name in FLOATS)


def _require_place(name: str, tensor: Tensor, x: Tensor) -> None:
    if tensor.device != x.device:
        raise InvalidArgument(f"{NAME}: {name} is on {tensor.device}, but x is on {x.device}; move one of them (.to())")


def _check_table(name: str, table: Tensor, x: Tensor, rotary_dim: int) -> None:
    require_dtype(NAME, name, table, _floats())
    _require_place(name, table, x)
    batch, _, rows, _ = x.shape
    if table.dim() not in (2, 3) or table.shape[-1] not in (rotary_dim, rotary_dim // 2):
        raise InvalidArgument(
            f"{NAME}: {name} has shape {tuple(table.shape)}, but with rotary_dim {rotary_dim} must be "
            f"[max_positions, {rotary_dim // 2} or {rotary_dim}], or have a first dimension of batches"
        )
    if table.dim() == 3 and (table.shape[0] not in (1, batch) or table.shape[1] != rows):
        raise InvalidArgument(
            f"{NAME}: {name} has shape {tuple(table.shape)}, but as x has {tuple(x.shape)} must have "
            f"1 or {batch} batches of {rows} rows"
        )


def _check_positions(positions: Tensor | None, cos: Tensor, x: Tensor) -> None:
    import torch

    batch, _, rows, _ = x.shape
    if positions is None:
        if cos.dim() == 2 and cos.shape[0] < rows:
            raise InvalidArgument(f"{NAME}: cos has {cos.shape[0]} positions, but x has {rows} rows")
        return
    require_dtype(NAME, "positions", positions, (torch.int32, torch.int64))
    _require_place("positions", positions, x)
    if cos.dim() == 3:
        raise InvalidArgument(
            f"{NAME}: positions choose rows of a table [max_positions, n], but cos has shape {tuple(cos.shape)}, a row "
            "for each row already"
        )
    if positions.shape != (batch,) and positions.shape not in ((batch, rows), (1, rows)):
        raise InvalidArgument(
            f"{NAME}: positions has shape {tuple(positions.shape)}, but must have ({batch},), the positions of first "
            f"rows, or ({batch} or 1, {rows}), those of all"
        )
    if rows and not cos.shape[0]:
        raise InvalidArgument(f"{NAME}: cos has no positions")


def check(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int,
    interleaved: bool, inverse: bool,  # noqa: ARG001
) -> None:  # fmt: skip
    if x.dim() != 4:
        raise InvalidArgument(f"{NAME}: x has shape {tuple(x.shape)}, but must have dimensions [batch, heads, rows, d]")
    require_dtype(NAME, "x", x, _floats())
    d = x.shape[3]
    if d > MOST_D or rotary_dim < 2 or rotary_dim > d or rotary_dim % 2:
        raise InvalidArgument(
            f"{NAME}: rotary_dim is {rotary_dim}, and rows of x have {d} elements: even numbers from 2 to as "
            f"many as a row has, which are {MOST_D} at most, are supported"
        )
    _check_table("cos", cos, x, rotary_dim)
    _check_table("sin", sin, x, rotary_dim)
    if sin.shape != cos.shape or sin.dtype != cos.dtype:
        raise InvalidArgument(
            f"{NAME}: sin has shape {tuple(sin.shape)} and dtype {sin.dtype}, but cos {tuple(cos.shape)} and "
            f"{cos.dtype}"
        )
    _check_positions(positions, cos, x)


def check_pair(
    x: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool,
    inverse: bool,
) -> None:  # fmt: skip
    check(x, cos, sin, positions, rotary_dim, interleaved, inverse)
    require_dtype(NAME, "k", k, (x.dtype,))
    _require_place("k", k, x)
    if k.dim() != 4 or (k.shape[0], k.shape[2], k.shape[3]) != (x.shape[0], x.shape[2], x.shape[3]):
        raise InvalidArgument(
            f"{NAME}: k has shape {tuple(k.shape)}, but as x has {tuple(x.shape)} must have [{x.shape[0]}, heads, "
            f"{x.shape[2]}, {x.shape[3]}]"
        )


# --- without values ---------------------------------------------------------------


def fake(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool, inverse: bool
) -> Tensor:
    import torch

    check(x, cos, sin, positions, rotary_dim, interleaved, inverse)
    return torch.empty_like(x)


def fake_pair(
    x: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool,
    inverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    import torch

    check_pair(x, k, cos, sin, positions, rotary_dim, interleaved, inverse)
    return torch.empty_like(x), torch.empty_like(k)


def _writable(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        refuse_inference(NAME, name, tensor)
        refuse_overlap(NAME, name, tensor)


def fake_x_(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool, inverse: bool
) -> None:
    check(x, cos, sin, positions, rotary_dim, interleaved, inverse)
    _writable(x=x)


def fake_pair_(
    x: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool,
    inverse: bool,
) -> None:  # fmt: skip
    check_pair(x, k, cos, sin, positions, rotary_dim, interleaved, inverse)
    _writable(x=x, k=k)


# --- the implementations ----------------------------------------------------------


def _table(table: Tensor, x: Tensor) -> Tensor:
    """Of a type that kernels read beside x: its own, or float32, which has all numbers of those that are shorter."""
    import torch

    return adjacent(table if table.dtype in (x.dtype, torch.float32) else table.float())


def _positions(positions: Tensor | None) -> Tensor | None:
    import torch

    if positions is None or positions.dtype == torch.int32:
        return positions
    return positions.clamp(-(2**31), 2**31 - 1).to(torch.int32)


def _caller(library: Library, key: str) -> Callable[..., None]:
    """call(outputs, inputs, options), with rows whose elements are adjacent."""
    place = placement(library, key)
    at: Callable[[Tensor], int] | None = None

    def call(outs: tuple[Tensor, ...], given: tuple[Tensor, ...], options: tuple[Any, ...]) -> None:
        nonlocal at
        at = at or handles(library)
        cos, sin, positions, rotary_dim, interleaved, inverse = options
        x, missing = given[0], (None,) * (2 - len(given))
        _, stream = place(x)
        tensors = *outs, *missing, *given, *missing, _table(cos, x), _table(sin, x), _positions(positions)
        addresses = [None if t is None else at(t) for t in tensors]
        library.call("kw_rope_tensors", stream, *addresses, rotary_dim, interleaved, inverse)

    return call


def _made(x: Tensor) -> tuple[Tensor, Tensor]:
    """The result, and what a kernel can write to: the same, but where rows of the result have gaps."""
    import torch

    out = torch.empty_like(x)
    return out, adjacent(out)


def _runner(library: Library, key: str) -> Callable[..., tuple[Tensor, ...]]:
    call = _caller(library, key)

    def run(given: tuple[Tensor, ...], options: tuple[Any, ...]) -> tuple[Tensor, ...]:
        made = [_made(x) for x in given]
        call(tuple(written for _, written in made), tuple(map(adjacent, given)), options)
        return tuple(out if out is written else out.copy_(written) for out, written in made)

    return run


def bind(library: Library, key: str) -> Callable[..., Tensor]:
    import torch

    run = _runner(library, key)

    def rope(x: Tensor, *options: Any) -> Tensor:
        check(x, *options)
        refuse_freed(NAME, x=x, cos=options[0], sin=options[1], positions=options[2])
        return reference.rope(x, *options) if x.dtype == torch.float64 else run((x,), options)[0]

    return rope


def bind_pair(library: Library, key: str) -> Callable[..., tuple[Tensor, ...]]:
    import torch

    run = _runner(library, key)

    def rope(x: Tensor, k: Tensor, *options: Any) -> tuple[Tensor, ...]:
        check_pair(x, k, *options)
        refuse_freed(NAME, x=x, k=k, cos=options[0], sin=options[1], positions=options[2])
        return reference.pair(x, k, *options) if x.dtype == torch.float64 else run((x, k), options)

    return rope


# --- in place ---------------------------------------------------------------------


def _between(x: Tensor, k: Tensor) -> bool:
    """Whether k's heads lie beside x's in each row of one tensor, as in the product that has both."""
    if any(x.stride(dim) != k.stride(dim) for dim in (0, 2)):
        return False
    first, second = (x, k) if x.data_ptr() < k.data_ptr() else (k, x)
    of_first, of_second = ((t.shape[1] - 1) * t.stride(1) + t.shape[3] for t in (first, second))
    away = (second.data_ptr() - first.data_ptr()) // x.element_size()
    steps = sorted((x.stride(dim), x.shape[dim]) for dim in (0, 2) if x.shape[dim] > 1)
    end = away + of_second
    within = all(end <= step for step, _ in steps)
    return of_first <= away and within and (len(steps) < 2 or steps[0][0] * steps[0][1] <= steps[1][0])


def _alone(given: tuple[Tensor, ...]) -> bool:
    """Whether a kernel may write to each where it reads it."""
    if any(adjacent(x) is not x for x in given):
        return False
    x, k = given if len(given) == 2 else (given[0], None)
    return k is None or not (x.numel() and k.numel()) or not reaches(k, *span(x)) or _between(x, k)


def _apart(given: tuple[Tensor, ...], options: tuple[Any, ...]) -> tuple[Any, ...]:
    """The options, with copies of tensors that share memory with what is written."""
    import torch

    places = [span(x) for x in given if x.numel()]

    def own(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.numel() and any(reaches(value, *at) for at in places):
            return value.clone()
        return value

    return tuple(map(own, options))


def _writer(
    library: Library, key: str, by_torch: Callable[..., Any]
) -> Callable[[tuple[Tensor, ...], tuple[Any, ...]], None]:
    import torch

    call, run, written = _caller(library, key), _runner(library, key), torch.autograd.graph.increment_version

    def write(given: tuple[Tensor, ...], options: tuple[Any, ...]) -> None:
        options = _apart(given, options)
        if given[0].dtype != torch.float64 and _alone(given):
            call(given, given, options)
            for x in given:
                written(x)
            return
        found = by_torch(*given, *options) if given[0].dtype == torch.float64 else run(given, options)
        for x, turned in zip(given, found if isinstance(found, tuple) else (found,), strict=True):
            x.copy_(turned)

    return write


def bind_x_(library: Library, key: str) -> Callable[..., None]:
    write = _writer(library, key, reference.rope)

    def rope(x: Tensor, *options: Any) -> None:
        fake_x_(x, *options)
        refuse_freed(NAME, x=x, cos=options[0], sin=options[1], positions=options[2])
        write((x,), options)

    return rope


def bind_pair_(library: Library, key: str) -> Callable[..., None]:
    write = _writer(library, key, reference.pair)

    def rope(x: Tensor, k: Tensor, *options: Any) -> None:
        fake_pair_(x, k, *options)
        refuse_freed(NAME, x=x, k=k, cos=options[0], sin=options[1], positions=options[2])
        write((x, k), options)

    return rope
