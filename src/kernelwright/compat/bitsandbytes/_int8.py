# SPDX-License-Identifier: MIT
"""What bitsandbytes.functional has for LLM.int8."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.integrations._bitsandbytes_int8 import int8_linear_matmul_out
from kernelwright.nn import _int8 as kernels

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "batched_igemm",
    "check_matmul",
    "igemm",
    "int8_double_quant",
    "int8_linear_matmul",
    "int8_mm_dequant",
    "int8_vectorwise_dequant",
    "int8_vectorwise_quant",
]


def int8_linear_matmul(A: Tensor, B: Tensor, out: Tensor | None = None, dtype: Any = torch.int32) -> Tensor:
    """A times the transposed B, of 8-bit integers with sums of 32 bits."""
    del dtype  # sums are of 32 bits, whatever is asked, as in bitsandbytes
    if out is None:
        return kernels.linear_matmul(A, B)
    int8_linear_matmul_out(A, B, out)
    return out


def int8_mm_dequant(
    A: Tensor,
    row_stats: Tensor,
    col_stats: Tensor,
    out: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Sums as float16: times the scales of their row and column, plus bias."""
    found = kernels.mm_dequant(A, row_stats, col_stats, torch.float16, bias)
    return found if out is None else out.copy_(found)


def int8_double_quant(
    A: Tensor,
    col_stats: Tensor | None = None,
    row_stats: Tensor | None = None,
    out_col: Tensor | None = None,
    out_row: Tensor | None = None,
    threshold: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Codes by rows and by columns, both scales, and the columns with outliers."""
    given = {"col_stats": col_stats, "row_stats": row_stats, "out_col": out_col, "out_row": out_row}
    for name, value in given.items():
        if value is not None:
            raise InvalidArgument(f"int8_double_quant: {name} must be None: results are always new tensors")
    return kernels.double_quant(A, threshold)


def int8_vectorwise_dequant(A: Tensor, stats: Tensor) -> Tensor:
    """Rows of codes as float32."""
    return kernels.vectorwise_dequant(A, stats)


def int8_vectorwise_quant(A: Tensor, threshold: float = 0.0) -> tuple[Tensor, Tensor, Tensor | None]:
    """Codes of rows, their scales, and with a threshold the columns with outliers.

    >>> codes, scales, columns = int8_vectorwise_quant(torch.randn(4, 64).half(), threshold=6.0)
    """
    return kernels.vectorwise_quant(A, threshold)


def check_matmul(
    A: Tensor,
    B: Tensor,
    out: Tensor | None,
    transposed_A: bool,
    transposed_B: bool,
    expected_type: torch.dtype = torch.int8,
) -> tuple[int, ...]:
    """The shape of a product; refuses what cannot be multiplied."""
    if A.dtype is not expected_type or B.dtype is not expected_type:
        raise TypeError(f"check_matmul: A has dtype {A.dtype} and B {B.dtype}, but both must be {expected_type}")
    left, right = _turned(A, transposed_A), _turned(B, transposed_B)
    if left.shape[-1] != right.shape[-2] or (right.dim() == 3 and left.shape[0] != right.shape[0]):
        raise InvalidArgument(
            f"check_matmul: A is {tuple(A.shape)} and B {tuple(B.shape)}, transposed {transposed_A} and "
            f"{transposed_B}: they cannot be multiplied"
        )
    return tuple(out.shape) if out is not None else (*left.shape[:-1], right.shape[-1])


def _turned(tensor: Tensor, transposed: bool) -> Tensor:
    return tensor.transpose(-1, -2) if transposed else tensor


def igemm(
    A: Tensor,
    B: Tensor,
    out: Tensor | None = None,
    transposed_A: bool = False,
    transposed_B: bool = False,
) -> Tensor:
    """A times B, of 8-bit integers with sums of 32 bits. Deprecated, as in bitsandbytes."""
    warnings.warn("igemm is deprecated; use int8_linear_matmul", FutureWarning, stacklevel=2)
    check_matmul(A, B, out, transposed_A, transposed_B)
    left, right = _turned(A, transposed_A), _turned(B, transposed_B)
    if right.dim() == 3:
        found = _by_batch(left, right)
    else:
        found = kernels.linear_matmul(left.contiguous(), right.t().contiguous())
    return found if out is None else out.copy_(found)


def _by_batch(left: Tensor, right: Tensor) -> Tensor:
    pairs = zip(left, right.transpose(-1, -2), strict=True)
    return torch.stack([kernels.linear_matmul(a.contiguous(), b.contiguous()) for a, b in pairs])


def batched_igemm(
    A: Tensor,
    B: Tensor,
    out: Tensor | None = None,
    transposed_A: bool = False,
    transposed_B: bool = False,
) -> Tensor:
    """Products of matrices of two batches. Deprecated, as in bitsandbytes."""
    warnings.warn("batched_igemm is deprecated; use torch.bmm", FutureWarning, stacklevel=2)
    check_matmul(A, B, out, transposed_A, transposed_B)
    found = _by_batch(_turned(A, transposed_A), _turned(B, transposed_B))
    return found if out is None else out.copy_(found)
