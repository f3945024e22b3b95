# SPDX-License-Identifier: MIT
"""What follows for torch where an operator treats each row by itself: batches are more rows, and shards fewer.

The record says which tensors have rows (`Overload.rows`), which results are sums over them (`sums`), and whether
columns are independent too (`elementwise`). Tensors without rows are the same for all of them.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._record import Overload
    from kernelwright.ops._schema import Schema

_SHARDED = "torch.distributed.tensor"
_lock = threading.Lock()
_unknown: list[tuple[Any, Overload, Schema]] = []  # to DTensor: those that it was not told of yet


# --- vmap -----------------------------------------------------------------------------


def _sample(args: tuple[Any, ...], dims: tuple[Any, ...], place: int) -> list[Any]:
    return [a if dim is None else a.select(dim, place) for a, dim in zip(args, dims, strict=True)]


def _one_by_one(torch: Any, target: Any, size: int, dims: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    found = [target(*_sample(args, dims, place)) for place in range(size)]
    if isinstance(found[0], tuple):
        return tuple(torch.stack(each) for each in zip(*found, strict=True)), (0,) * len(found[0])
    return torch.stack(found), 0


def batch(torch: Any, library: Any, target: Any, name: str, overload: Overload, schema: Schema) -> None:
    """Registers a rule for torch.vmap, where this torch takes one; else it makes a loop of its own."""
    if not overload.rows or schema.written or not hasattr(torch.library, "register_vmap"):
        return
    rows = [place for place in schema.tensors if schema.arguments[place].name in overload.rows]
    wanted = [place for place, argument in enumerate(schema.arguments) if argument.type == "bool"]

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        size, _ = info
        dims = (*in_dims, *(None,) * (len(args) - len(in_dims)))
        batched = {place for place, dim in enumerate(dims) if dim is not None}
        summed = overload.sums and any(args[place] for place in wanted if place < len(args))
        if not batched <= set(rows) or summed or args[rows[0]].dim() - (rows[0] in batched) < 1:
            return _one_by_one(torch, target, size, dims, args)
        given = list(args)
        for place in rows:
            if place < len(args) and args[place] is not None:
                value = args[place]
                given[place] = value.movedim(dims[place], 0) if place in batched else value.expand(size, *value.shape)
        found = target(*given)
        if not isinstance(found, tuple):
            return found, 0
        return found, tuple(None if place in overload.sums else 0 for place in range(len(found)))

    torch.library.register_vmap(f"kernelwright::{name}", rule, lib=library)


# --- DTensor --------------------------------------------------------------------------


def remember(target: Any, overload: Overload, schema: Schema) -> None:
    if overload.rows:
        _unknown.append((target, overload, schema))


def _can_be_told() -> bool:
    """Whether the program has DTensor, of a torch that takes rules."""
    home = sys.modules.get(_SHARDED)
    if not (hasattr(home, "Shard") and hasattr(home, "Replicate") and hasattr(home, "Partial")):
        return False
    return hasattr(importlib.import_module(f"{_SHARDED}.experimental"), "register_sharding")


def tell_dtensor() -> bool:
    """Gives DTensor the sharding rules, once the program has it; whether it had not been told before."""
    if not _unknown or not _can_be_told():
        return False
    from torch.distributed.tensor.experimental import register_sharding

    with _lock:
        told = bool(_unknown)
        while _unknown:
            target, overload, schema = _unknown.pop()
            register_sharding(target)(_rule(overload, schema))
    return told


def _rule(overload: Overload, schema: Schema) -> Callable[..., Any]:
    """All ways to compute on shards of one dimension of a mesh: placements of results, and of arguments."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    def placements(kind: Any, args: tuple[Any, ...]) -> list[Any]:
        found: list[Any] = []
        for argument, value in zip(schema.arguments, args, strict=False):
            if argument.type != "Tensor" or value is None:
                found.append(None)
            else:
                found.append(kind if argument.name in overload.rows else Replicate())
        return found

    def rule(*args: Any) -> Any:
        dims = next(
            value.ndim
            for argument, value in zip(schema.arguments, args, strict=False)
            if argument.name in overload.rows
        )
        ways = [([Replicate()] * schema.results, placements(Replicate(), args))]
        for dim in range(dims if overload.elementwise else dims - 1):
            results = [Partial() if place in overload.sums else Shard(dim) for place in range(schema.results)]
            ways.append((results, placements(Shard(dim), args)))
        return ways

    return rule
