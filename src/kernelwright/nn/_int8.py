# SPDX-License-Identifier: MIT
"""The operators of LLM.int8 as bitsandbytes has them, on kernelwright's. Importing this file imports torch.

Scales ("stats") are the largest sizes of rows: a code stands for code * scale / 127.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._tensors import without_autocast
from kernelwright.ops.int8._matmul import BY_ABSMAX

if TYPE_CHECKING:
    from torch import Tensor

_BY_SCALE = 1.0 / 127
_ROWS = 64  # of a weight, that are made wide at a time


def require(who: str, name: str, tensor: Tensor, dtype: torch.dtype) -> None:
    if tensor.dtype is not dtype:
        raise InvalidArgument(f"{who}: {name} has dtype {tensor.dtype}, but must have {dtype}")


def _require_threshold(who: str, threshold: float) -> None:
    if not threshold >= 0.0:
        raise InvalidArgument(f"{who}: threshold is {threshold}, but must be 0 (none) or positive")


def vectorwise_quant(x: Tensor, threshold: float = 0.0) -> tuple[Tensor, Tensor, Tensor | None]:
    """Codes, the rows' scales, and with a threshold the numbers of the columns that have outliers, else None."""
    _require_threshold("int8_vectorwise_quant", threshold)
    if threshold > 0.0:
        codes, scales, columns = calls.quantize_rows_int8.outliers(x, threshold, 0.0)
        return codes, scales.view(-1), columns.nonzero().view(-1)
    codes, scales = calls.quantize_rows_int8.default(x, None, -1.0, 0.0)
    return codes, scales.view(-1), None


def vectorwise_dequant(codes: Tensor, scales: Tensor) -> Tensor:
    """The rows that codes stand for, float32."""
    require("int8_vectorwise_dequant", "A", codes, torch.int8)
    return codes * scales.view(-1, 1) * _BY_SCALE


def linear_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """x times the transposed weight, exact, int32."""
    found: Tensor = calls.matmul_int8.default(x, weight, None, None, None, 1.0, torch.int32)
    return found


def mm_dequant(
    sums: Tensor,
    row_scales: Tensor,
    column_scales: Tensor,
    dtype: torch.dtype | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """What the sums of `linear_matmul` stand for."""
    require("int8_mm_dequant", "A", sums, torch.int32)
    require("int8_mm_dequant", "row_stats", row_scales, torch.float32)
    require("int8_mm_dequant", "col_stats", column_scales, torch.float32)
    rows = sums.reshape(-1, sums.shape[-1])
    found = rows * (row_scales.reshape(-1, 1) * column_scales.reshape(1, -1)) * BY_ABSMAX
    if bias is not None:
        found += bias
    return found.to(dtype or torch.float16).view(sums.shape)


def scaled_mm(
    x: Tensor,
    weight: Tensor,
    row_scales: Tensor,
    column_scales: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """`linear_matmul` and `mm_dequant` in one pass."""
    if bias is not None and bias.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        bias = bias.float()
    found: Tensor = calls.matmul_int8.default(
        x,
        weight,
        row_scales.reshape(x.shape[:-1]),
        column_scales.reshape(-1),
        bias,
        BY_ABSMAX,
        dtype or torch.float16,
    )
    return found


def double_quant(x: Tensor, threshold: float = 0.0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Codes by rows, codes by columns, both scales, and the columns with outliers (or None)."""
    codes, scales, outliers = vectorwise_quant(x, threshold)
    rows = x.reshape(-1, x.shape[-1])
    if threshold > 0.0:
        rows = rows.masked_fill(rows.abs() >= threshold, 0.0)
    column_scales = rows.abs().amax(dim=0).float()
    by_columns = torch.round(rows.mul(127.0) / column_scales.unsqueeze(0)).to(torch.int8)
    return codes, by_columns.view(x.shape), scales, column_scales, outliers


def mixed_scaled_mm(
    x: Tensor,
    codes: Tensor,
    weight: Tensor,
    row_scales: Tensor,
    column_scales: Tensor,
    outliers: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`scaled_mm` of the columns without outliers, and the others' product in x's own type.

    Returns the product, and the columns of x that have outliers.
    """
    found = scaled_mm(codes, weight, row_scales, column_scales, bias, x.dtype)
    if outliers is None or not outliers.numel():
        return found, torch.empty(0, device=x.device, dtype=x.dtype)
    part = x[..., outliers].contiguous()
    of_weight = vectorwise_dequant(weight[:, outliers].contiguous(), column_scales).to(x.dtype)
    with without_autocast(x.device):
        found.view(-1, found.shape[-1]).addmm_(part.view(-1, part.shape[-1]), of_weight.t())
    return found, part


def dequantized(weight: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """A weight in this type, as the gradients of a layer take it."""
    by = scales.unsqueeze(1).mul(_BY_SCALE)
    if weight.device.type != "cpu" or dtype is torch.float32 or torch.compiler.is_dynamo_compiling():
        return weight.to(dtype, copy=True).mul_(by)
    # On a CPU torch multiplies two types one number at a time. In float32, and rounded then, the bits are the same; a
    # part at a time, which the caches hold.
    wide = torch.empty_like(weight, dtype=dtype)
    for part, codes, of in zip(wide.split(_ROWS), weight.split(_ROWS), by.split(_ROWS), strict=True):
        part.copy_(codes.float().mul_(of))
    return wide
