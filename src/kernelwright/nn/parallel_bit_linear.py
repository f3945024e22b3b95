# SPDX-License-Identifier: MIT
"""BitLinear over several processes: its weight by rows or by columns, through torch.distributed.

What travels are 8-bit codes and their scales, or sums in 32 bits. Those are exact, so that a result has the bits it has
on one device, whatever the number of processes. For inference; training takes BitLinear in DistributedDataParallel.
The styles of kernelwright.distributed do the same to layers of a model, in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _summed
from kernelwright.nn._straight import CLAMP
from kernelwright.nn.bit_linear import BitLinear
from kernelwright.nn.ternary_formats import pack_ternary, unpack_ternary
from kernelwright.ops._calls import calls

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ColumnParallelBitLinear", "RowParallelBitLinear"]


def _whole(layer: BitLinear) -> tuple[Tensor, Tensor]:
    """The matrix and the scale of a packed layer, or of what packing would give."""
    if layer.weight is not None:
        packed, scale = calls.quantize_ternary.default(layer.weight.detach(), layer.per_row)
    else:
        packed, scale = layer.packed, layer._factor()  # noqa: SLF001 - of this package
    return unpack_ternary(packed, layer.out_features, layer.in_features), scale


def _part(who: str, count: int, group: Any) -> slice:
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    if count % world:
        raise InvalidArgument(f"{who}: {count} cannot be shared equally by {world} processes")
    return slice(count // world * rank, count // world * (rank + 1))


class _Parallel(torch.nn.Module):
    packed: Tensor
    scale: Tensor

    def __init__(self, layer: BitLinear, group: Any) -> None:
        super().__init__()
        self.in_features, self.out_features, self.group = layer.in_features, layer.out_features, group
        if layer.rms_norm is not None:
            raise InvalidArgument(
                f"{type(self).__name__}: a layer with a norm of its own; put the norm before the layer"
            )

    def _keep(self, values: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        self.n, self.k = values.shape
        self.register_buffer("packed", pack_ternary(values))
        self.register_buffer("scale", scale.clone())
        self.register_buffer("bias", None if bias is None else bias.detach().clone())


class ColumnParallelBitLinear(_Parallel):
    """Each process has an equal part of the weight's rows, that is of the outputs.

    gather  whether results of all are put together; else each process returns its own columns
    rows    whether each process is given rows of its own: then these are quantized where they are, and their codes
            gathered, half as many bytes as in 16 bits. Else all are given the same rows

    >>> part = kernelwright.nn.ColumnParallelBitLinear(layer)
    """

    def __init__(self, layer: BitLinear, group: Any = None, *, gather: bool = False, rows: bool = False) -> None:
        super().__init__(layer, group)
        self.gather, self.rows = gather, rows
        values, scale = _whole(layer)
        mine = _part(type(self).__name__, layer.out_features, group)
        self._keep(
            values[mine], scale if scale.numel() == 1 else scale[mine], None if layer.bias is None else layer.bias[mine]
        )

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        codes, absmax = calls.quantize_rows_int8.default(x, None, -1.0, CLAMP)
        if self.rows:
            codes, absmax = _gathered(codes, self.group), _gathered(absmax, self.group)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        y: Tensor = calls.matmul_ternary.default(codes, self.packed, absmax, self.scale, bias, self.n, x.dtype)
        if not self.gather:
            return y
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, y, group=self.group)
        return torch.cat(parts, -1)


class RowParallelBitLinear(_Parallel):
    """Each process has an equal part of the weight's columns, and of the inputs: what ColumnParallelBitLinear returns.

    >>> part = kernelwright.nn.RowParallelBitLinear(layer)
    """

    def __init__(self, layer: BitLinear, group: Any = None) -> None:
        super().__init__(layer, group)
        values, scale = _whole(layer)
        self._keep(values[:, _part(type(self).__name__, layer.in_features, group)], scale, layer.bias)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return _summed.product(x, self.packed, self.scale, self.n, self.bias, self.group)


def _gathered(part: Tensor, group: Any) -> Tensor:
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, part.contiguous(), group=group)
    return torch.cat(parts)
