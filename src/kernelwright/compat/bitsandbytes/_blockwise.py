# SPDX-License-Identifier: MIT
"""What bitsandbytes.functional has for 8-bit codes of blocks, and for steps of optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.integrations import _bitsandbytes_8bit as kernels
from kernelwright.nn._four_bit import in_float32
from kernelwright.nn.quant_state import QuantState
from kernelwright.ops.optim._maps import dynamic_map

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "dequantize_blockwise",
    "optimizer_update_8bit_blockwise",
    "optimizer_update_32bit",
    "quantize_blockwise",
]

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def quantize_blockwise(
    A: Tensor,
    code: Tensor | None = None,
    absmax: Tensor | None = None,
    out: Tensor | None = None,
    blocksize: int = 4096,
    nested: bool = False,
) -> tuple[Tensor, QuantState]:
    """Codes of 8 bits and their state; nested: the scales, less their mean, are quantized too.

    >>> codes, state = quantize_blockwise(torch.randn(1000), blocksize=256)
    """
    if A.dtype not in _FLOATS:
        raise InvalidArgument(f"quantize_blockwise: A has dtype {A.dtype}, but must be a float of 16 or 32 bits")
    table = dynamic_map(True, A.device) if code is None else in_float32(code.to(A.device))
    codes, scales = kernels.quantize_blockwise(A, table, blocksize)
    state = QuantState(scales, code=table.clone(), blocksize=blocksize, dtype=A.dtype)
    if nested:
        state.offset = scales.mean()
        state.absmax, state.state2 = quantize_blockwise(scales - state.offset, blocksize=blocksize)
    if absmax is not None:
        state.absmax = absmax.copy_(state.absmax)
    return (codes if out is None else out.copy_(codes)), state


def dequantize_blockwise(
    A: Tensor,
    quant_state: QuantState | None = None,
    absmax: Tensor | None = None,
    code: Tensor | None = None,
    out: Tensor | None = None,
    blocksize: int = 4096,
    nested: bool = False,
) -> Tensor:
    """The floats that codes stand for: of a state, or of scales and a map as float32.

    >>> dequantize_blockwise(codes, state)
    """
    del nested  # the state says so
    if A.dtype is not torch.uint8:
        raise InvalidArgument(f"dequantize_blockwise: A has dtype {A.dtype}, but must be torch.uint8")
    if quant_state is None:
        if absmax is None:
            raise InvalidArgument("dequantize_blockwise: it needs quant_state, or absmax; give either")
        quant_state = QuantState(absmax, code=code, blocksize=blocksize, dtype=torch.float32)
    scales, table = quant_state.absmax, quant_state.code
    if quant_state.state2 is not None and quant_state.offset is not None:
        scales = dequantize_blockwise(scales, quant_state.state2) + quant_state.offset
    table = dynamic_map(True, A.device) if table is None else table.to(A.device)
    dtype, size = quant_state.dtype or torch.float32, quant_state.blocksize or blocksize
    found = kernels.dequantize_blockwise(A, scales, table, size, dtype)
    return found if out is None else out.copy_(found)


def optimizer_update_32bit(
    optimizer_name: str,
    g: Tensor,
    p: Tensor,
    state1: Tensor,
    beta1: float,
    eps: float,
    step: int,
    lr: float,
    state2: Tensor | None = None,
    beta2: float = 0.0,
    beta3: float = 0.0,
    alpha: float = 0.0,
    weight_decay: float = 0.0,
    gnorm_scale: float = 1.0,
    unorm_vec: Tensor | None = None,
    max_unorm: float = 0.0,
    skip_zeros: bool = False,
) -> None:
    """A step of one tensor with states of 32 bits, in place."""
    norm: Any = p.float().norm() if max_unorm > 0 else 0.0
    kernels.optimizer_update_32bit(
        optimizer_name, g, p, state1, state2, unorm_vec, max_unorm, norm, beta1, beta2, beta3, alpha, eps,
        weight_decay, step, lr, gnorm_scale, skip_zeros,
    )  # fmt: skip


def optimizer_update_8bit_blockwise(
    optimizer_name: str,
    g: Tensor,
    p: Tensor,
    state1: Tensor,
    state2: Tensor | None,
    beta1: float,
    beta2: float,
    beta3: float,
    alpha: float,
    eps: float,
    step: int,
    lr: float,
    qmap1: Tensor,
    qmap2: Tensor | None,
    absmax1: Tensor,
    absmax2: Tensor | None,
    weight_decay: float = 0.0,
    gnorm_scale: float = 1.0,
    skip_zeros: bool = False,
) -> None:
    """A step of one tensor with states of 8 bits, in place."""
    kernels.optimizer_update_8bit_blockwise(
        optimizer_name, g, p, state1, state2, beta1, beta2, beta3, alpha, eps, step, lr, qmap1, qmap2, absmax1,
        absmax2, weight_decay, gnorm_scale, skip_zeros,
    )  # fmt: skip
