# SPDX-License-Identifier: MIT
"""States of a parameter that FSDP2 has sharded: a DTensor, of which each process computes its part.

States have the parameter's placement, so that torch.distributed.checkpoint saves each process's part, and loads it into
another number of processes. Scales of 8-bit states belong to blocks of 256 elements. Where no block lies in two
processes, as in nearly all models, the scales are those of one process, sharded as the parameter. Otherwise each
process counts blocks from the start of its part and has a row of scales, as long as the longest; these load into the
same number of processes alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor


def is_sharded(tensor: Any) -> bool:
    return hasattr(tensor, "to_local")


def local(tensor: Tensor) -> Tensor:
    """This process's part, the same memory; a tensor that is not sharded is that itself."""
    if not is_sharded(tensor):
        return tensor
    found: Tensor = tensor.to_local()
    return found


def like(p: Tensor, part: Tensor, leading: int = 0) -> Tensor:
    """`part`, of the shape of p's part after `leading` dimensions, as a DTensor that is sharded as p."""
    if not is_sharded(p):
        return part
    held: Any = p
    where = [_along(at, at.dim + leading) if at.is_shard() else at for at in held.placements]
    return _made(held, part, where, torch.Size((*part.shape[:leading], *p.shape)))


def _along(placement: Any, dim: int) -> Any:
    """The same placement, of another dimension."""
    split = {"split_factor": placement.split_factor} if hasattr(placement, "split_factor") else {}
    return placement if placement.dim == dim else type(placement)(dim, **split)


def _made(p: Any, part: Tensor, where: list[Any], shape: torch.Size) -> Tensor:
    """A DTensor on p's processes. Its class is p's: torch has it in another module since 2.5."""
    stride = torch.empty(shape, device="meta").stride()
    found: Tensor = type(p).from_local(part, p.device_mesh, where, run_check=False, shape=shape, stride=stride)
    return found


def _whole_blocks(p: Any, of: int) -> bool:
    """Whether no block of `of` elements lies in two processes, and torch shards scales of all blocks as it does p."""
    shards = [(size, at) for size, at in zip(p.device_mesh.shape, p.placements, strict=True) if at.is_shard()]
    if len(shards) != 1:
        return not shards
    size, at = shards[0]
    if at.dim != 0 or hasattr(at, "split_factor"):
        return False
    rows, blocks = p.shape[0], -(-p.numel() // of)
    for index in range(1, size):  # parts are as torch.chunk makes them
        row, block = min(index * -(-rows // size), rows), min(index * -(-blocks // size), blocks)
        if (row, block) != (rows, blocks) and row * (p.numel() // rows) != block * of:
            return False
    return True


def scales(p: Tensor, shape: tuple[int, ...], of: int) -> Tensor:
    """Zeros, one for each `of` elements of p's part along the last dimension after `shape`."""
    part = local(p)
    own = torch.zeros((*shape, -(-part.numel() // of)), dtype=torch.float32, device=part.device)
    if not is_sharded(p):
        return own
    sharded: Any = p
    if _whole_blocks(sharded, of):
        where = [_along(at, len(shape)) if at.is_shard() else at for at in sharded.placements]
        return _made(sharded, own, where, torch.Size((*shape, -(-p.numel() // of))))
    count, longest = 1, p.numel()
    for size, at in zip(sharded.device_mesh.shape, sharded.placements, strict=True):
        if at.is_shard():
            longest = longest // p.shape[at.dim] * -(-p.shape[at.dim] // size)
            count *= size
    blocks = -(-longest // of)
    where = [_along(at, 0) if at.is_shard() else at for at in sharded.placements]
    held = torch.zeros((1, *shape, blocks), dtype=torch.float32, device=part.device)
    return _made(sharded, held, where, torch.Size((count, *shape, blocks)))


def part_of_state(p: Tensor, state: dict[str, Any], of: int) -> dict[str, Any]:
    """What belongs to this process's part of p."""
    if not is_sharded(p):
        return state
    found = {name: local(value) if is_sharded(value) else value for name, value in state.items()}
    blocks = -(-local(p).numel() // of)
    for number in (1, 2):
        held = found.get(f"absmax{number}")
        if held is not None and held.ndim > found[f"state{number}"].ndim - p.ndim + 1:  # a row for each process
            found[f"absmax{number}"] = held[0, ..., :blocks]
    return found
