# SPDX-License-Identifier: MIT
"""kernelwright's operators with the arguments of bitsandbytes' for 4 bits. Importing this file imports torch."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _four_bit
from kernelwright.nn._four_bit import in_float32
from kernelwright.ops._calls import calls

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
    found: Tensor = op(_four_bit.as_bytes(packed), in_float32(absmax), shape, blocksize, quant_type, dtype)
    return found


def write(op: str, out: Tensor, found: Tensor) -> None:
    if out.shape != found.shape or out.dtype != found.dtype:
        raise InvalidArgument(
            f"bitsandbytes::{op}: out is {tuple(out.shape)} of {out.dtype}, but the result is {tuple(found.shape)} of "
            f"{found.dtype}"
        )
    out.copy_(found)


def dequantize_out(
    packed: Tensor,
    absmax: Tensor,
    blocksize: int,
    quant_type: str,
    shape: Sequence[int],
    dtype: torch.dtype,
    out: Tensor,
) -> None:
    write("dequantize_4bit", out, dequantize(packed, absmax, blocksize, quant_type, shape, dtype))


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
        y: Tensor = op.default(x, codes, in_float32(absmax), *rest)
    else:
        y = op.nested(x, codes, *scales_of(absmax, absmax_8bit, absmax_code, absmax_offset), *rest)
    return y


def scales_of(absmax: Tensor, codes: Tensor, table: Any, offset: Any) -> tuple[Tensor, ...]:
    """Of a double-quantized weight, as the operators take them. Checkpoints of some programs hold other types."""
    return codes, in_float32(absmax), in_float32(table), in_float32(offset)


_types: dict[int, tuple[weakref.ref[Tensor], str]] = {}
"""Of tensors of 16 values that were seen, which type's they are: to look at one on a GPU waits for the GPU."""


def type_of(code: Tensor) -> str:
    """ "nf4" or "fp4", whose 16 values these are."""
    known = _types.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    there = code.detach().float().cpu().reshape(-1)
    for kind in ("nf4", "fp4"):
        if there.shape == (16,) and torch.allclose(there, _four_bit.values(kind, "cpu"), rtol=0, atol=1e-6):
            for gone in [key for key, (ref, _) in _types.items() if ref() is None]:
                del _types[gone]
            _types[id(code)] = weakref.ref(code), kind
            return kind
    raise InvalidArgument(
        f"bitsandbytes::gemv_4bit: code has {code.numel()} values that are neither nf4's nor fp4's; pass the code of "
        "the state that quantize_4bit gave"
    )


def gemv(x: Tensor, packed: Tensor, shape: Sequence[int], absmax: Tensor, code: Tensor, blocksize: int) -> Tensor:
    return gemm(x, packed, shape, absmax.reshape(-1), blocksize, type_of(code))


def gemv_out(
    x: Tensor, packed: Tensor, shape: Sequence[int], absmax: Tensor, code: Tensor, blocksize: int, out: Tensor
) -> None:
    write("gemv_4bit", out, gemv(x, packed, shape, absmax, code, blocksize))


KERNELS: dict[str, Callable[..., Any]] = {
    "quantize_4bit": quantize,
    "dequantize_4bit": dequantize,
    "dequantize_4bit.out": dequantize_out,
    "gemm_4bit": gemm,
    "gemv_4bit": gemv,
    "gemv_4bit.out": gemv_out,
}
