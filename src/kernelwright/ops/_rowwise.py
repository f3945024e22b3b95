# SPDX-License-Identifier: MIT
"""What follows for torch where an operator treats each row by itself: batches are more rows, and shards fewer.

The record says which tensors have rows (`Overload.rows`), which results are sums over them (`sums`), and whether
columns are independent too (`elementwise`). Tensors without rows are the same for all of them. Or it says how calls are
split (`splits`): a batch of calls is put together along the dimension that they would be split along.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import TYPE_CHECKING, Any

from kernelwright.errors import Unsupported
from kernelwright.ops._record import SUM

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._record import Overload, Split
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
    if schema.written or not hasattr(torch.library, "register_vmap"):
        return
    if overload.splits:
        torch.library.register_vmap(f"kernelwright::{name}", _joined(torch, target, overload, schema), lib=library)
    if overload.rows:
        rule = _more_rows(torch, target, overload, schema)
        torch.library.register_vmap(f"kernelwright::{name}", rule, lib=library)


def _more_rows(torch: Any, target: Any, overload: Overload, schema: Schema) -> Callable[..., Any]:
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

    return rule


def _joined(torch: Any, target: Any, overload: Overload, schema: Schema) -> Callable[..., Any]:
    """One call of what would be split into that of each sample."""
    names = [argument.name for argument in schema.arguments]

    def split_of(args: tuple[Any, ...], dims: tuple[Any, ...]) -> Split | None:
        shapes = [_shape(value, dim) for value, dim in zip(args, dims, strict=True)]
        batched = {name for name, dim in zip(names, dims, strict=False) if dim is not None}
        ways: Any = overload.splits(*shapes) if overload.splits else ()
        return next((way for way in ways if batched <= set(way.arguments) and SUM not in way.results), None)

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        size, _ = info
        dims = (*in_dims, *(None,) * (len(args) - len(in_dims)))
        way = split_of(args, dims)
        if way is None:
            return _one_by_one(torch, target, size, dims, args)
        given = list(args)
        for place, name in enumerate(names[: len(args)]):
            if name in way.arguments and args[place] is not None:
                given[place] = _together(args[place], dims[place], way.arguments[name], size)
        found = target(*given)
        each = found if isinstance(found, tuple) else (found,)
        apart = [
            y if dim is None else y.unflatten(dim, (size, y.shape[dim] // size))
            for y, dim in zip(each, way.results, strict=True)
        ]
        return (tuple(apart), way.results) if isinstance(found, tuple) else (apart[0], way.results[0])

    return rule


def _shape(value: Any, dim: int | None = None) -> Any:
    """A tensor's, without the dimension of a batch; another argument as it is."""
    sizes = getattr(value, "shape", None)
    return value if sizes is None else tuple(size for place, size in enumerate(sizes) if place != dim)


def _together(value: Any, dim: int | None, along: int, size: int) -> Any:
    """The samples beside each other along a dimension; one that serves all of them as often."""
    if dim is not None:
        return value.movedim(dim, along).flatten(along, along + 1)
    sizes = list(value.shape)
    sizes.insert(along, size)
    return value.unsqueeze(along).expand(sizes).flatten(along, along + 1)


# --- DTensor --------------------------------------------------------------------------


def remember(target: Any, overload: Overload, schema: Schema) -> None:
    if overload.rows or overload.splits:
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
            register_sharding(target)(_rule(target, overload, schema))
    return told


def _rule(target: Any, overload: Overload, schema: Schema) -> Callable[..., Any]:
    """All ways to compute on shards of one dimension of a mesh: placements of results, and of arguments."""
    from torch.distributed.tensor import Replicate

    ways_of = _ways_of_splits if overload.splits else _ways_of_rows

    def rule(*args: Any) -> Any:
        whole = [Replicate()] * schema.results, _placements(schema, args, {})
        ways = [whole, *ways_of(overload, schema, args)]
        return _in_place(target, schema, args, ways) if schema.written else ways

    return rule


def _placements(schema: Schema, args: tuple[Any, ...], split: dict[str, Any]) -> list[Any]:
    from torch.distributed.tensor import Replicate

    return [
        None if argument.type != "Tensor" or value is None else split.get(argument.name, Replicate())
        for argument, value in zip(schema.arguments, args, strict=False)
    ]


def _ways_of_rows(overload: Overload, schema: Schema, args: tuple[Any, ...]) -> list[Any]:
    from torch.distributed.tensor import Partial, Shard

    named = zip(schema.arguments, args, strict=False)
    dims = next(value.ndim for argument, value in named if argument.name in overload.rows)
    found = []
    for dim in range(dims if overload.elementwise else dims - 1):
        results = [Partial() if place in overload.sums else Shard(dim) for place in range(schema.results)]
        found.append((results, _placements(schema, args, dict.fromkeys(overload.rows, Shard(dim)))))
    return found


def _ways_of_splits(overload: Overload, schema: Schema, args: tuple[Any, ...]) -> list[Any]:
    from torch.distributed.tensor import Partial, Replicate, Shard

    def of_result(dim: int | str | None) -> Any:
        return Replicate() if dim is None else Partial() if dim == SUM else Shard(dim)

    parts = next(value.device_mesh.size() for value in args if hasattr(value, "device_mesh"))
    found = []
    for way in overload.splits(*map(_shape, args)) if overload.splits else ():
        if way.units % parts == 0:
            split = {name: Shard(dim) for name, dim in way.arguments.items()}
            found.append(([of_result(dim) for dim in way.results], _placements(schema, args, split)))
    return found


def _in_place(target: Any, schema: Schema, args: tuple[Any, ...], ways: list[Any]) -> list[Any]:
    """Those that leave what is written to where it is: DTensor would have another copy written, and forget it."""
    now = [args[place].placements for place in schema.written]
    kept = [
        way
        for way in ways
        if all(set(placed) == {way[1][place]} for place, placed in zip(schema.written, now, strict=True))
    ]
    if not kept:
        names = " and ".join(schema.arguments[place].name for place in schema.written)
        raise Unsupported(
            f"{target} writes to {names}, which cannot stay as sharded ({', '.join(map(str, now))}): "
            "redistribute first, or use the overload that does not write in place"
        )
    return kept
