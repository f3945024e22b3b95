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
    y = sums.float() * (absmax * (1.0 / 127.0)).unsqueeze(-1) * scale
    return (y if bias is None else y + bias.float()).to(x.dtype)
