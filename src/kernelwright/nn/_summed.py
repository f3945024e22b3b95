# SPDX-License-Identifier: MIT
"""A ternary product whose columns lie in several processes: exact, whatever their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from kernelwright.nn._straight import CLAMP
from kernelwright.ops._calls import calls

if TYPE_CHECKING:
    from torch import Tensor


def product(x: Tensor, packed: Tensor, scale: Tensor, n: int, bias: Tensor | None, group: Any) -> Tensor:
    """Of this process's columns of x and of the weight, with those of all others of the group.

    A row's scale is that of the whole row: its largest size is agreed on first. Then sums of integers are added up.
    """
    largest = x.abs().amax(-1, keepdim=True).float().clamp(min=CLAMP)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    # The operator takes a row's largest element for its scale: one more column has it.
    single = torch.cat([x.float(), largest], -1)
    codes, absmax = calls.quantize_rows_int8.default(single, None, -1.0, CLAMP)
    codes = codes[..., :-1]
    sums: Tensor = calls.matmul_ternary.default(codes, packed, None, None, None, n, torch.int32)
    dist.all_reduce(sums, group=group)
    y = sums.float() * (absmax * (1.0 / 127.0)).unsqueeze(-1)
    return (y * scale if bias is None else _rounded_once(y, scale, bias.to(x.dtype))).to(x.dtype)


def _rounded_once(y: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """y * scale + bias in float32 with one rounding, as the kernels of one device end (a fused multiply-add).

    In float64 the product is exact. Where the sum is not, its last bit is made odd, so that rounding it to float32 is
    rounding the exact sum.
    """
    product, addend = y.double() * scale.double(), bias.double()
    found = product + addend
    back = found - product
    lost = (product - (found - back)) + (addend - back)  # exact: found + lost is the sum
    bits = found.view(torch.int64)
    away = torch.where((lost > 0) == (found > 0), 1, -1)  # to the neighbour on that side
    odd = torch.where((lost != 0) & (bits & 1 == 0), bits + away, bits)
    return odd.view(torch.float64).float()
