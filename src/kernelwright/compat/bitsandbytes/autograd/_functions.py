# SPDX-License-Identifier: MIT
"""bitsandbytes.autograd._functions: products with quantized weights, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.compat.bitsandbytes._four_bit import matmul_4bit
from kernelwright.compat.bitsandbytes.autograd._int8 import (
    GlobalOutlierPooler,
    MatMul8bitFp,
    MatMul8bitLt,
    MatmulLtState,
)

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "GlobalOutlierPooler",
    "MatMul4Bit",
    "MatMul8bitFp",
    "MatMul8bitLt",
    "MatmulLtState",
    "matmul",
    "matmul_4bit",
]


class MatMul4Bit:
    """`apply` multiplies with a 4-bit weight; gradients reach A and bias."""

    @staticmethod
    def apply(A: Tensor, B: Tensor, out: Any = None, bias: Any = None, quant_state: Any = None) -> Tensor:
        return matmul_4bit(A, B, quant_state, out, bias)


def matmul(
    A: Tensor,
    B: Tensor,
    out: Tensor | None = None,
    state: MatmulLtState | None = None,
    threshold: float = 0.0,
    bias: Tensor | None = None,
) -> Tensor:
    """A times the transposed B in 8 bits: quantized by rows, outlier columns of A in its own type.

    >>> y = matmul(torch.randn(3, 64).half(), torch.randn(32, 64).half())
    """
    state = state or MatmulLtState()
    if threshold > 0:
        state.threshold = threshold
    wide = state.is_training and A.device.type == "cpu"
    found: Tensor = (MatMul8bitFp if wide else MatMul8bitLt).apply(A, B, None, bias, state)
    return found if out is None else out.copy_(found)
