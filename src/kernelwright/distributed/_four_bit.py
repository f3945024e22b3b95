# SPDX-License-Identifier: MIT
"""A process's part of a 4-bit weight: codes and scales of some of its rows, or of some of its columns.

Blocks run along the rows, one row after the other. A part must be whole blocks, as a scale belongs to one. Scales that
are quantized themselves (double quantization) stay so where a part is whole groups of them; elsewhere the part keeps
them in float32, which is what they stand for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _four_bit
from kernelwright.nn.params_4bit import Params4bit
from kernelwright.nn.quant_state import QuantState
from kernelwright.ops.four_bit._shared import SCALES_A_BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Same = Callable[[Tensor], Tensor]
    """Makes a tensor that of the process whose values count."""


def _weight_of(who: str, layer: Any, device: str) -> tuple[Any, QuantState]:
    weight, state = layer.weight, layer._state()  # noqa: SLF001 - of this package
    if not isinstance(weight, Params4bit):
        raise InvalidArgument(f"{who}: the weight is a {type(weight).__name__}, but must be a whole Params4bit")
    if weight.device.type != device:
        raise InvalidArgument(
            f"{who}: the weight is on {weight.device}, but the mesh is of {device}: move the layer there first, "
            f"layer.to({device!r})"
        )
    return weight, state


def _plain(state: QuantState, absmax: Tensor) -> QuantState:
    """A state with scales in float32 alone."""
    return QuantState(absmax.contiguous().clone(), None, state.code, state.blocksize, state.quant_type, state.dtype)


def _rows(codes: Tensor, state: QuantState, part: slice) -> tuple[Tensor, QuantState]:
    _, k = state.shape  # type: ignore[misc]
    elements = slice(part.start * k, part.stop * k)
    blocks = slice(elements.start // state.blocksize, elements.stop // state.blocksize)
    mine = codes[elements.start // 2 : elements.stop // 2]
    if state.state2 is None or blocks.start % SCALES_A_BLOCK or blocks.stop % SCALES_A_BLOCK:
        return mine, _plain(state, _four_bit.scales(state)[blocks])
    kept, second = state.copy(), state.state2.copy()
    groups = slice(blocks.start // SCALES_A_BLOCK, blocks.stop // SCALES_A_BLOCK)
    kept.absmax, second.absmax = state.absmax[blocks].clone(), state.state2.absmax[groups].clone()
    kept.state2 = second
    return mine, kept


def _columns(codes: Tensor, state: QuantState, part: slice) -> tuple[Tensor, QuantState]:
    n, k = state.shape  # type: ignore[misc]
    size: Any = state.blocksize
    mine = codes.view(n, k // 2)[:, part.start // 2 : part.stop // 2].reshape(-1)
    scales = _four_bit.scales(state).view(n, k // size)[:, part.start // size : part.stop // size]
    return mine, _plain(state, scales.reshape(-1))


def share(who: str, layer: Any, along: int, rank: int, world: int, device: str, same: Same) -> None:
    """Leaves a layer its part: `along` 0 of the weight's rows (outputs), 1 of its columns (inputs)."""
    weight, state = _weight_of(who, layer, device)
    shape = tuple(state.shape or ())
    count, names = shape[along], ("rows", "columns")
    if count % world:
        raise InvalidArgument(
            f"{who}: the {count} {names[along]} of the weight of shape {shape} cannot be shared equally by {world} "
            "processes"
        )
    each = count // world
    run = each * shape[1] if along == 0 else each
    if run % state.blocksize:
        raise InvalidArgument(
            f"{who}: {each} {names[along]} of the 4-bit weight of shape {shape} are {run} elements "
            f"{'' if along == 0 else 'a row '}for each of {world} processes, which are no whole blocks of "
            f"{state.blocksize}; shard it the other way, or quantize it with a smaller blocksize"
        )
    codes = same(_four_bit.as_bytes(weight.data).reshape(-1))
    whole = state.copy()._change(same)  # noqa: SLF001 - of this package
    part = slice(each * rank, each * (rank + 1))
    mine, kept = (_rows if along == 0 else _columns)(codes, whole, part)
    kept.shape = torch.Size((each, shape[1]) if along == 0 else (shape[0], each))
    layer.out_features, layer.in_features = kept.shape
    layer.weight = weight._with(mine.clone().view(weight.dtype).view(-1, 1), quant_state=kept)  # noqa: SLF001
