# SPDX-License-Identifier: MIT
"""LLM.int8's product and its gradients, with bitsandbytes' state."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from kernelwright.integrations import _bitsandbytes_int8 as kernels

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)
_LARGEST = 127.0
_compiling = torch.compiler.is_dynamo_compiling


class GlobalOutlierPooler:
    """Outlier columns of all layers of one width; one for the process."""

    _instance: ClassVar[GlobalOutlierPooler | None] = None
    outliers: set[int]
    model_dim: int | None

    def __init__(self) -> None:
        raise RuntimeError("GlobalOutlierPooler: there is one for the process, from get_instance()")

    def initialize(self) -> None:
        self.outliers, self.model_dim = set(), None

    @classmethod
    def get_instance(cls) -> GlobalOutlierPooler:
        if cls._instance is None:
            cls._instance = cls.__new__(cls)
            cls._instance.initialize()
        return cls._instance

    def add_outliers(self, outlier_idx: Tensor, feature_dim: int) -> None:
        self.model_dim = self.model_dim or feature_dim
        if feature_dim == self.model_dim:  # the second layer of a feed-forward part has another width
            self.outliers.update(outlier_idx.tolist())

    def get_current_outlier_idx(self) -> Tensor:
        return torch.tensor(sorted(self.outliers), dtype=torch.int64)


@dataclass
class MatmulLtState:
    """What a layer in 8 bits knows of its weight: CB its codes, SCB the scales of its rows."""

    force_no_igemmlt: bool = False
    CB: Tensor | None = None
    SB: Tensor | None = None
    SCB: Tensor | None = None
    SBt: Tensor | None = None
    CBt: Tensor | None = None
    subB: Tensor | None = None  # noqa: N815 - bitsandbytes' name
    outlier_pool: GlobalOutlierPooler | None = None
    has_accumulated_gradients = False
    threshold = 0.0
    idx: Tensor | None = None
    is_training = True
    has_fp16_weights = True
    use_pool = False

    def reset_grads(self) -> None:
        self.CB = self.SB = self.SCB = self.SBt = self.CBt = None


def _quantize_weight(state: MatmulLtState, weight: Tensor) -> None:
    """Again in each step of a training whose weight is in 16 bits; once where it is frozen."""
    if not (state.has_fp16_weights or state.CB is None):
        return
    fresh = state.is_training and getattr(weight, "grad", None) is None
    if fresh or state.CB is None or state.SCB is None:
        state.reset_grads()
        state.CB, state.SCB, _ = kernels.int8_vectorwise_quant(weight.detach().contiguous().half())


def _wide(state: MatmulLtState, dtype: torch.dtype) -> Tensor:
    """The weight as its codes say."""
    if state.CB is None or state.SCB is None:
        raise RuntimeError("MatmulLtState: CB and SCB are not there; the weight was not quantized yet")
    return state.CB.to(dtype).mul_(state.SCB.unsqueeze(1).mul(1 / _LARGEST))


def _gradient_of_bias(grad: Tensor, bias: Any) -> Tensor:
    return grad.reshape(-1, grad.shape[-1]).sum(0, dtype=bias)


class MatMul8bitLt(torch.autograd.Function):
    """In 8 bits: A quantized by rows, its outlier columns multiplied in its own type."""

    @staticmethod
    def forward(
        ctx: Any,
        A: Tensor,
        B: Tensor,
        out: Tensor | None = None,
        bias: Tensor | None = None,
        state: MatmulLtState | None = None,
    ) -> Tensor:
        state = state or MatmulLtState()
        ctx.state, ctx.shape, ctx.dtype, ctx.bias = state, A.shape, A.dtype, None if bias is None else bias.dtype
        ctx.of_weight, ctx.like = (), B
        if not A.numel():
            return A.new_empty((*A.shape[:-1], B.shape[0] if A.shape[-1] == B.shape[-1] else B.shape[-1]))
        if A.dtype is not torch.float16 and not _compiling():
            logger.warning("MatMul8bitLt: inputs will be cast from %s to float16 during quantization", A.dtype)
        rows = A.reshape(-1, A.shape[-1])
        by_column = None
        if ctx.needs_input_grad[1]:
            codes, by_column, scales, column_scales, columns = kernels.int8_double_quant(rows.half(), state.threshold)
        else:
            codes, scales, columns = kernels.int8_vectorwise_quant(rows.half(), state.threshold)
        _quantize_weight(state, B)
        part = None
        if state.threshold > 0:
            state.idx = columns
            y, part = kernels.int8_mixed_scaled_mm(rows, codes, state.CB, scales, state.SCB, columns, bias)
        else:
            y = kernels.int8_scaled_mm(codes, state.CB, scales, state.SCB, bias, A.dtype)
        if by_column is not None:
            ctx.of_weight = by_column, column_scales, part, columns
        return y.view(*A.shape[:-1], y.shape[-1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        by_a, by_b, _, by_bias, _ = ctx.needs_input_grad
        found_a = found_b = None
        if grad.numel() and by_b:
            found_b = _gradient_of_weight(ctx, grad.reshape(-1, grad.shape[-1]))
        elif by_b:
            found_b = torch.zeros_like(ctx.like)
        if by_a:
            empty = not grad.numel()
            found_a = grad.new_zeros(ctx.shape) if empty else grad.to(ctx.dtype) @ _wide(ctx.state, ctx.dtype)
            found_a = found_a.view(ctx.shape)
        return found_a, found_b, None, _gradient_of_bias(grad, ctx.bias) if by_bias else None, None


def _gradient_of_weight(ctx: Any, grad: Tensor) -> Tensor:
    by_column, scales, part, columns = ctx.of_weight
    _, codes, _, grad_scales, _ = kernels.int8_double_quant(grad.half())
    found = kernels.int8_scaled_mm(
        codes.t().contiguous(), by_column.t().contiguous(), grad_scales, scales, None, torch.float16
    )
    if part is not None and part.numel():
        found[:, columns] += (grad.t() @ part).to(found.dtype)
    return found


class MatMul8bitFp(torch.autograd.Function):
    """With the weight as its codes say, in A's type: what training on a CPU takes."""

    @staticmethod
    def forward(
        ctx: Any,
        A: Tensor,
        B: Tensor,
        out: Tensor | None = None,
        bias: Tensor | None = None,
        state: MatmulLtState | None = None,
    ) -> Tensor:
        state = state or MatmulLtState()
        _quantize_weight(state, B)
        ctx.state, ctx.dtype, ctx.bias = state, A.dtype, None if bias is None else bias.dtype
        ctx.save_for_backward(A)
        return torch.nn.functional.linear(A, _wide(state, A.dtype), bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (a,) = ctx.saved_tensors
        by_a, by_b, _, by_bias, _ = ctx.needs_input_grad
        rows = grad.reshape(-1, grad.shape[-1])
        return (
            (grad.to(ctx.dtype) @ _wide(ctx.state, ctx.dtype)).view(a.shape) if by_a else None,
            rows.t() @ a.reshape(-1, a.shape[-1]) if by_b else None,
            None,
            _gradient_of_bias(grad, ctx.bias) if by_bias else None,
            None,
        )
