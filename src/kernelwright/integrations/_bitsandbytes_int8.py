# SPDX-License-Identifier: MIT
"""bitsandbytes' operators of LLM.int8, with its arguments. Importing this file imports torch.

Sums of products of 8-bit integers are exact everywhere: by kernelwright's operator where this build has it, by torch's
integer product where that takes the shape, else in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.integrations._bitsandbytes_kernels import write

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_LARGEST = 127.0
_SQUARED = 1.0 / (_LARGEST * _LARGEST)


def _ours(name: str) -> Any:
    """An operator of kernelwright's that a build may be without."""
    packet = getattr(torch.ops.kernelwright, name, None)
    return None if packet is None else packet.default


def int8_vectorwise_quant(x: Tensor, threshold: float = 0.0) -> tuple[Tensor, Tensor, Tensor | None]:
    """Codes of each row, its largest magnitude, and the columns that have an element of at least `threshold`.

    Those elements do not count for the rows' magnitudes; where there are several rows, their columns' codes are 0.
    """
    rows = x.reshape(-1, x.shape[-1])
    columns, counted = None, rows
    if threshold > 0:
        beyond = rows.abs() >= threshold
        columns = beyond.any(0).nonzero().view(-1)
        counted = rows.masked_fill(beyond, 0)
    scales = counted.abs().amax(1).float() if rows.numel() else rows.new_zeros(len(rows), dtype=torch.float32)
    codes = torch.round(counted * (_LARGEST / scales).unsqueeze(1)).nan_to_num_(0).to(torch.int8)
    if columns is not None and len(rows) > 1:
        codes[:, columns] = 0
    return codes.view(x.shape), scales, columns


def int8_vectorwise_dequant(codes: Tensor, scales: Tensor) -> Tensor:
    return codes * scales.view(-1, 1) * (1 / _LARGEST)


def int8_double_quant(x: Tensor, threshold: float = 0.0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """As int8_vectorwise_quant, by rows and by columns."""
    by_row, row_scales, columns = int8_vectorwise_quant(x, threshold)
    rows = x.reshape(-1, x.shape[-1])
    counted = rows.masked_fill(rows.abs() >= threshold, 0) if threshold > 0 else rows
    scales = counted.abs().amax(0).float()
    codes = torch.round(counted * (_LARGEST / scales)).nan_to_num_(0).to(torch.int8)
    return by_row, codes.view(x.shape), row_scales, scales, columns


def int8_linear_matmul(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype is not torch.int8 or b.dtype is not torch.int8:
        raise InvalidArgument(f"int8_linear_matmul: A has dtype {a.dtype} and B {b.dtype}, but both must be torch.int8")
    rows = a.reshape(-1, a.shape[-1])
    op = _ours("matmul_int8")
    if op is not None:
        found: Tensor = op(rows, b, None, None, None, 1.0, torch.int32)
    elif rows.is_cuda and len(rows) > 16 and not (b.shape[0] % 8 or b.shape[1] % 8):
        found = torch._int_mm(rows.contiguous(), b.t())  # noqa: SLF001 - it has no public name
    else:
        found = torch.matmul(rows.double(), b.double().t()).to(torch.int32)
    return found.view(*a.shape[:-1], b.shape[0])


def int8_linear_matmul_out(a: Tensor, b: Tensor, out: Tensor) -> None:
    write("int8_linear_matmul", out, int8_linear_matmul(a, b))


def int8_mm_dequant(
    sums: Tensor,
    row_scales: Tensor,
    column_scales: Tensor,
    dtype: torch.dtype | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    if sums.dtype is not torch.int32:
        raise InvalidArgument(f"int8_mm_dequant: A has dtype {sums.dtype}, but must be torch.int32")
    wide = sums.reshape(-1, sums.shape[-1]) * (row_scales.reshape(-1, 1) * column_scales.reshape(1, -1)) * _SQUARED
    wide = wide if bias is None else wide + bias
    return wide.to(dtype or torch.float16).view(sums.shape)


def int8_scaled_mm(
    a: Tensor,
    b: Tensor,
    row_scales: Tensor,
    column_scales: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    op = _ours("matmul_int8")
    if op is not None:
        rows = a.reshape(-1, a.shape[-1])
        scales = row_scales.reshape(-1), column_scales.reshape(-1)
        found: Tensor = op(rows, b, *scales, bias, _SQUARED, dtype or torch.float16)
        return found.view(*a.shape[:-1], b.shape[0])
    return int8_mm_dequant(int8_linear_matmul(a, b), row_scales, column_scales, dtype, bias)


def int8_mixed_scaled_mm(
    x: Tensor,
    codes: Tensor,
    weight: Tensor,
    row_scales: Tensor,
    column_scales: Tensor,
    outlier_cols: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The product of codes, and beside it that of the columns which are not in them."""
    found = int8_scaled_mm(codes, weight, row_scales, column_scales, bias, x.dtype)
    if outlier_cols is None or not outlier_cols.numel():
        return found, x.new_empty(0)
    part = x[:, outlier_cols].contiguous()
    other = int8_vectorwise_dequant(weight[:, outlier_cols].contiguous(), column_scales).to(x.dtype)
    return found.addmm(part, other.t()), part


KERNELS: dict[str, Callable[..., Any]] = {
    "int8_vectorwise_quant": int8_vectorwise_quant,
    "int8_vectorwise_dequant": int8_vectorwise_dequant,
    "int8_double_quant": int8_double_quant,
    "int8_linear_matmul": int8_linear_matmul,
    "int8_linear_matmul.out": int8_linear_matmul_out,
    "int8_mm_dequant": int8_mm_dequant,
    "int8_scaled_mm": int8_scaled_mm,
    "int8_mixed_scaled_mm": int8_mixed_scaled_mm,
}
