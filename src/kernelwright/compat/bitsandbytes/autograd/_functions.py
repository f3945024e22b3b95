# SPDX-License-Identifier: MIT
"""bitsandbytes.autograd._functions: products with quantized weights, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.compat.bitsandbytes._four_bit import matmul_4bit
from kernelwright.compat.bitsandbytes.autograd._int8 import GlobalOutlierPooler, MatMul8bitFp, MatMul8bitLt
from kernelwright.nn.matmul_8bit import MatmulLtState
from kernelwright.nn.matmul_8bit import matmul_8bit as matmul

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
