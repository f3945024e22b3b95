# SPDX-License-Identifier: MIT
"""A ternary layer that trains: quantized forward, straight-through backward.

What is kept for the backward pass is what the product was made of: two bits a weight and eight an input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.ops._calls import calls
from kernelwright.ops._tensors import without_autocast

if TYPE_CHECKING:
    from torch import Tensor

CLAMP = 1e-5


class Straight(torch.autograd.Function):
    """`linear(Q(x), T(weight), bias)`; derivatives are those of linear(x, weight, bias) at the quantized values."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, per_row: bool) -> Tensor:
        packed, scale = calls.quantize_ternary.default(weight, per_row)
        codes, absmax = calls.quantize_rows_int8.default(x, None, -1.0, CLAMP)
        ctx.save_for_backward(codes, absmax, packed, scale)
        ctx.kinds = x.dtype, weight.dtype, None if bias is None else bias.dtype
        given = None if bias is None else bias.to(x.dtype)
        found: Tensor = calls.matmul_ternary.default(codes, packed, absmax, scale, given, weight.shape[0], x.dtype)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        codes, absmax, packed, scale = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.kinds
        by_x, by_weight, by_bias = ctx.needs_input_grad[:3]
        rows, n, k = grad.reshape(-1, grad.shape[-1]), grad.shape[-1], codes.shape[-1]
        with without_autocast(grad.device):
            to_x = to_weight = to_bias = None
            if by_x:
                dense = calls.dequantize_ternary.default(packed, scale, n, k, grad.dtype)
                to_x = torch.matmul(grad, dense).to(of_x)
            if by_weight:
                inputs = (codes.reshape(-1, k) * (absmax.reshape(-1, 1) / 127)).to(grad.dtype)
                to_weight = torch.matmul(rows.t(), inputs).to(of_weight)
            if by_bias:
                to_bias = rows.sum(0).to(of_bias)
        return to_x, to_weight, to_bias, None
