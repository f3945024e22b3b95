# SPDX-License-Identifier: MIT
"""kernelwright's operators with the arguments of bitsandbytes'. Importing this file imports torch.

`bitsandbytes::gemv_4bit` is not among them: bitsandbytes calls it for layers on the CPU whose codes it has reordered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _four_bit
from kernelwright.ops._direct import calls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


def quantize(x: Tensor, blocksize: int, quant_type: str, quant_storage: torch.dtype) -> tuple[Tensor, Tensor]:
    packed, state = _four_bit.quantize(
        x, quant_type=quant_type, blocksize=blocksize, compress_statistics=False, quant_storage=quant_storage
    )
    return packed, state.absmax


def dequantize(
    packed: Tensor, absmax: Tensor, blocksize: int, quant_type: str, shape: Sequence[int], dtype: torch.dtype
) -> Tensor:
    op = calls.dequantize_4bit.default
    found: Tensor = op(_four_bit.as_bytes(packed), absmax.float(), shape, blocksize, quant_type, dtype)
    return found


def dequantize_out(
    packed: Tensor,
    absmax: Tensor,
    blocksize: int,
    quant_type: str,
    shape: Sequence[int],
    dtype: torch.dtype,
    out: Tensor,
) -> None:
    if out.shape != torch.Size(shape) or out.dtype != dtype:
        raise InvalidArgument(
            f"bitsandbytes::dequantize_4bit: out is {tuple(out.shape)} of {out.dtype}, but the result is "
            f"{tuple(shape)} of {dtype}"
        )
    out.copy_(dequantize(packed, absmax, blocksize, quant_type, shape, dtype))


def gemm(
    x: Tensor,
    packed: Tensor,
    shape: Sequence[int],
    absmax: Tensor,
    blocksize: int,
    quant_type: str,
    bias: Tensor | None = None,
    absmax_8bit: Tensor | None = None,
    absmax_code: Tensor | None = None,
    absmax_offset: Tensor | None = None,
) -> Tensor:
    if x.shape[-1] != shape[1]:
        raise InvalidArgument(
            f"bitsandbytes::gemm_4bit: A has shape {tuple(x.shape)}, but its last dimension must be {shape[1]}, as the "
            f"weight is {list(shape)}"
        )
    op = calls.matmul_4bit
    rest: tuple[Any, ...] = (bias, shape[0], blocksize, quant_type)
    codes = _four_bit.as_bytes(packed)
    if absmax_8bit is None:
        y: Tensor = op.default(x, codes, absmax, *rest)
    else:
        y = op.nested(x, codes, *scales_of(absmax, absmax_8bit, absmax_code, absmax_offset), *rest)
    return y


def scales_of(absmax: Tensor, codes: Tensor, table: Any, offset: Any) -> tuple[Tensor, ...]:
    """Of a double-quantized weight, as the operators take them. Checkpoints of some programs hold another type."""
    return codes, absmax, table, offset if offset.dtype is torch.float32 else offset.float()


KERNELS: dict[str, Callable[..., Any]] = {
    "quantize_4bit": quantize,
    "dequantize_4bit": dequantize,
    "dequantize_4bit.out": dequantize_out,
    "gemm_4bit": gemm,
}
