# SPDX-License-Identifier: MIT
"""A process's part of a packed ternary layer: the matrix is unpacked, cut, and packed again, which is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.nn.parallel_bit_linear import _part, _whole
from kernelwright.nn.ternary_formats import pack_ternary

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def share(who: str, layer: Any, along: int, group: Any, same: Callable[[Tensor], Tensor]) -> None:
    """Leaves a layer its part: `along` 0 of the weight's rows (outputs), 1 of its columns (inputs)."""
    if layer.weight is not None:
        raise InvalidArgument(
            f"{who}: this BitLinear trains, and the scale of its weight belongs to all of it: pack it first "
            "(layer.pack_()), or train in DistributedDataParallel"
        )
    if along == 1 and layer.rms_norm is not None:
        raise InvalidArgument(
            f"{who}: this BitLinear has a norm of its own, which wants whole rows: put the norm before the layer"
        )
    mine = _part(who, layer.in_features if along else layer.out_features, group)
    values, scale = _whole(layer)
    values, scale, layer.weight_scale = same(values), same(scale), same(layer.weight_scale)
    values = values[:, mine] if along else values[mine]
    if along == 0 and scale.numel() > 1:
        scale, layer.weight_scale = scale[mine].clone(), layer.weight_scale[mine].clone()
    if along == 0 and layer.bias is not None:
        layer.bias.data = same(layer.bias.data)[mine].clone()
    elif layer.bias is not None:
        layer.bias.data = same(layer.bias.data)
    layer.packed, layer.scale = pack_ternary(values), scale
    layer.out_features, layer.in_features = values.shape
    layer.group = group if along else None
