# SPDX-License-Identifier: MIT
"""The product of LLM.int8: rows of the input and of the weight in 8 bits, columns with outliers in 16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from kernelwright.nn import _int8
from kernelwright.ops._tensors import without_autocast

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MatmulLtState", "matmul_8bit"]

_USUAL = (torch.float32, torch.float16, torch.bfloat16)


@dataclass
class MatmulLtState:
    """What a product in 8 bits keeps between calls: codes and scales of the weight, settings; as bitsandbytes' class.

    CB, SCB           the weight's codes, and the largest size in each of its rows
    threshold         inputs of this size or more are outliers, whose columns are computed in 16 bits; 0: none are
    has_fp16_weights  the weight is not in 8 bits itself, and is quantized in each step
    idx               the columns that had outliers in the last call
    """

    force_no_igemmlt: bool = False
    CB: Tensor | None = None
    SB: Tensor | None = None
    SCB: Tensor | None = None
    SBt: Tensor | None = None
    CBt: Tensor | None = None
    subB: Tensor | None = None  # noqa: N815 - bitsandbytes' name
    outlier_pool: Any = None
    has_accumulated_gradients: ClassVar[bool] = False
    threshold: float = 0.0
    idx: Tensor | None = None
    is_training: bool = True
    has_fp16_weights: bool = True
    use_pool: bool = False

    def reset_grads(self) -> None:
        self.CB = self.SB = self.SCB = self.SBt = self.CBt = None


def _quantize_weight(weight: Tensor, state: MatmulLtState) -> None:
    """Where the weight is in 16 bits, or is not known yet. As in bitsandbytes by way of float16."""
    if not state.has_fp16_weights and state.CB is not None:
        return
    fresh = not weight.is_leaf or weight.grad is None  # what DataParallel has copied is no leaf
    if (state.is_training and fresh) or state.CB is None or state.SCB is None:
        state.reset_grads()
        with torch.no_grad():
            state.CB, state.SCB, _ = _int8.vectorwise_quant(weight.detach().to(torch.float16))


def _product(x: Tensor, bias: Tensor | None, state: MatmulLtState) -> tuple[Tensor, Tensor | None]:
    """Of rows; the second are the columns of x that have outliers."""
    weight, scales = state.CB, state.SCB
    assert weight is not None and scales is not None  # noqa: PT018, S101 - _quantize_weight saw to it
    codes, row_scales, outliers = _int8.vectorwise_quant(x, state.threshold)
    if outliers is None:
        return _int8.scaled_mm(codes, weight, row_scales, scales, bias, x.dtype), None
    state.idx = outliers
    return _int8.mixed_scaled_mm(x, codes, weight, row_scales, scales, outliers, bias)


class MatMul8bit(torch.autograd.Function):
    """Gradients of x by the weight as its codes say; of a weight in 16 bits by codes of both factors, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, state: MatmulLtState) -> Tensor:
        _quantize_weight(weight, state)
        rows = x.reshape(-1, x.shape[-1])
        y, outliers = _product(rows, bias, state)
        ctx.state, ctx.idx, ctx.bias_dtype = state, state.idx, None if bias is None else bias.dtype
        ctx.save_for_backward(rows if ctx.needs_input_grad[1] else None, outliers)
        ctx.shape, ctx.dtype = x.shape, x.dtype
        return y.view(*x.shape[:-1], y.shape[-1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (x, outliers), state = ctx.saved_tensors, ctx.state
        by_x = by_weight = by_bias = None
        rows = grad.reshape(-1, grad.shape[-1])
        with without_autocast(grad.device):
            if ctx.needs_input_grad[2]:
                by_bias = rows.sum(0, dtype=ctx.bias_dtype)
            if ctx.needs_input_grad[1]:
                by_weight = _gradient_of_weight(rows, x, outliers, ctx.idx, state)
            if ctx.needs_input_grad[0]:
                weight = _int8.dequantized(state.CB, state.SCB, ctx.dtype)
                by_x = torch.matmul(rows.to(ctx.dtype), weight).view(ctx.shape)
        return by_x, by_weight, by_bias, None


def _gradient_of_weight(grad: Tensor, x: Tensor, outliers: Any, idx: Any, state: MatmulLtState) -> Tensor:
    """grad^T x, both factors in 8 bits by columns, in float16 as in bitsandbytes; columns with outliers in 16.

    bitsandbytes adds the latter to the former, and so counts twice what is no outlier in such a column.
    """
    _, by_columns, _, scales, _ = _int8.double_quant(x.to(torch.float16), state.threshold)
    _, of_grad, _, grad_scales, _ = _int8.double_quant(grad.to(torch.float16))
    found = _int8.scaled_mm(of_grad.t().contiguous(), by_columns.t().contiguous(), grad_scales, scales)
    if state.threshold > 0.0 and outliers is not None and outliers.numel():
        found[:, idx] = torch.matmul(grad.t().to(outliers.dtype), outliers).to(found.dtype)
    return found


class MatMul8bitDense(torch.autograd.Function):
    """The weight as its codes say, times x as it is: how layers train on the CPU, where that is the faster way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, state: MatmulLtState) -> Tensor:
        _quantize_weight(weight, state)
        ctx.state, ctx.dtype, ctx.bias_dtype = state, x.dtype, None if bias is None else bias.dtype
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None)
        with without_autocast(x.device):
            return torch.nn.functional.linear(x, _int8.dequantized(state.CB, state.SCB, x.dtype), bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (x,), state = ctx.saved_tensors, ctx.state
        by_x = by_weight = by_bias = None
        rows = grad.reshape(-1, grad.shape[-1])
        with without_autocast(grad.device):
            if ctx.needs_input_grad[2]:
                by_bias = rows.sum(0, dtype=ctx.bias_dtype)
            if ctx.needs_input_grad[1]:
                by_weight = torch.matmul(rows.t(), x.reshape(-1, x.shape[-1]))
            if ctx.needs_input_grad[0]:
                by_x = torch.matmul(grad.to(ctx.dtype), _int8.dequantized(state.CB, state.SCB, ctx.dtype))
        return by_x, by_weight, by_bias, None


def matmul_8bit(
    A: Tensor,  # noqa: N803 - bitsandbytes' names
    B: Tensor,  # noqa: N803
    out: Tensor | None = None,
    state: MatmulLtState | None = None,
    threshold: float = 0.0,
    bias: Tensor | None = None,
) -> Tensor:
    """`A @ B.T + bias` with both factors in 8 bits a number: bitsandbytes' `matmul`.

    A          [..., k]; in the type that the result has
    B          [n, k], the weight; not looked at where `state` has its codes and is told to use them
    state      what is kept between calls; None: nothing
    threshold  above 0: that of the state from now on
    out        a tensor to write the result to

    Gradients reach A, bias, and a weight in 16 bits. While training on the CPU A is not quantized, as in bitsandbytes.

    >>> y = matmul_8bit(x, weight, state=MatmulLtState(threshold=6.0))
    """
    state = state or MatmulLtState()
    if threshold > 0.0:
        state.threshold = threshold
    if not A.numel() and A.shape[-1] != B.shape[-1]:  # bitsandbytes takes such a weight the other way round
        return A.new_empty((*A.shape[:-1], B.shape[-1]))
    if not A.numel() or (state.is_training and A.device.type == "cpu"):
        y: Tensor = MatMul8bitDense.apply(A, B, bias, state)
    elif torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (A, B, bias)):
        y = MatMul8bit.apply(A, B, bias, state)
    else:
        _quantize_weight(B, state)
        y = _product(A.reshape(-1, A.shape[-1]), bias, state)[0]
        y = y.view(*A.shape[:-1], y.shape[-1])
    return y if out is None else out.copy_(y)
