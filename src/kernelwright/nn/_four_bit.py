# SPDX-License-Identifier: MIT
"""Between 4-bit layers and the operators: weights with a QuantState in, calls of operators out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument, InvalidDtype
from kernelwright.nn import _frozen_linear
from kernelwright.nn.quant_state import QuantState, unreadable
from kernelwright.ops import _register
from kernelwright.ops._calls import calls
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from torch import Tensor

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_STORAGE = (torch.uint8, torch.int8, torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_settings(quant_type: str, blocksize: int, quant_storage: torch.dtype) -> None:
    """Refuses what no weight can be quantized to, before there is one."""
    for op in ("quantize_4bit", "dequantize_4bit", "matmul_4bit"):
        _register.require(op)
    four_bit.check_quant_type("a 4-bit weight", quant_type)
    four_bit.check_blocksize("a 4-bit weight", blocksize)
    if quant_storage not in _STORAGE:
        raise InvalidDtype(
            f"a 4-bit weight: quant_storage is {quant_storage}, but must be {' or '.join(map(str, _STORAGE))}"
        )


def check_packed(who: str, packed: Tensor, state: QuantState) -> None:
    """A state from elsewhere goes with these codes, and says what the operators can compute with."""
    if state.shape is None or state.blocksize is None or state.quant_type is None or state.code is None:
        raise InvalidArgument(f"{who}: {state!r} lacks its shape, block size, type or values, so nothing can be read")
    codes = as_bytes(packed)
    four_bit.check_weight(who, codes, _scales(state), state.shape, state.blocksize, state.quant_type, codes)
    if state.state2 is not None and state.state2.blocksize != four_bit.SCALES_A_BLOCK:
        raise InvalidArgument(
            f"{who}: the scales are quantized in blocks of {state.state2.blocksize}, but the operators know blocks of "
            f"{four_bit.SCALES_A_BLOCK}, which is what bitsandbytes makes; quantize the weight again"
        )
    expected, code = values(state.quant_type, "cpu"), state.code.cpu().float()
    if code.shape != expected.shape or not torch.allclose(code, expected, rtol=0, atol=1e-6):
        raise InvalidArgument(
            f"{who}: quant_map has other values than {state.quant_type}, which the operators would compute with; "
            "the checkpoint was made with a type of its own"
        )


def check_codes(who: str, codes: Tensor) -> None:
    """Their bytes can be seen, which is asked before they are moved: a checkpoint may hold anything."""
    if kind := unreadable(codes):
        raise InvalidArgument(f"{who}: the codes are {kind}, but must be a plain tensor")
    if codes.dtype is torch.bool:  # a copy of it may have other bytes
        raise InvalidArgument(f"{who}: the codes are of torch.bool, but must be of torch.uint8 or what bytes fill")
    if not codes.shape:
        raise InvalidArgument(f"{who}: the codes have shape (), but must have at least one dimension")


def check_dtype(who: str, dtype: torch.dtype) -> None:
    if dtype not in _FLOATS:
        raise InvalidDtype(f"{who}: it has dtype {dtype}, but must have {' or '.join(map(str, _FLOATS))}")


def check_input(layer: torch.nn.Module, x: Any) -> None:
    if not isinstance(x, torch.Tensor):
        raise InvalidArgument(f"{type(layer).__name__}: its input is a {type(x).__name__}, but must be a tensor")


def check_storage(who: str, weight: Tensor, quant_storage: torch.dtype) -> None:
    """The packed bytes of a weight can be seen as that type."""
    size, count = quant_storage.itemsize, four_bit.packed_bytes(weight.numel())
    if count % size:
        raise InvalidArgument(
            f"{who}: of shape {tuple(weight.shape)} it has {count} bytes, which are no whole number of "
            f"{quant_storage} ({size} bytes each); use quant_storage=torch.uint8"
        )


def check_compute(who: str, dtype: Any) -> None:
    """What a layer computes in, said when the layer is made: a wrong type would fail in its first forward."""
    if dtype is not None and dtype not in (*_FLOATS, torch.float64):
        raise InvalidDtype(
            f"{who}: compute_dtype is {dtype!r}, but must be {' or '.join(map(str, _FLOATS))}, or None for the input's"
        )


def values(quant_type: str, device: Any) -> Tensor:
    """The 16 values of a type, as bitsandbytes' checkpoints hold them."""
    four_bit.check_quant_type("values", quant_type)
    return torch.tensor(four_bit.VALUES[quant_type], dtype=torch.float32, device=device)


def as_bytes(packed: Tensor) -> Tensor:
    """Packed codes as the operators take them, whatever type they are seen as."""
    return packed if packed.dtype is torch.uint8 else packed.view(torch.uint8)


def quantize(
    weight: Tensor, *, quant_type: str, blocksize: int, compress_statistics: bool, quant_storage: torch.dtype
) -> tuple[Tensor, QuantState]:
    """The codes of a weight, of shape [bytes, 1] seen as quant_storage, and their state."""
    check_settings(quant_type, blocksize, quant_storage)
    check_dtype("a 4-bit weight", weight.dtype)
    check_storage("a 4-bit weight", weight, quant_storage)
    op = calls.quantize_4bit
    packed, absmax = op.default(weight.detach(), blocksize, quant_type)
    packed = packed.view(quant_storage).view(-1, 1)
    code = values(quant_type, weight.device)
    if not compress_statistics:
        return packed, QuantState(absmax, weight.shape, code, blocksize, quant_type, weight.dtype)
    offset, table = absmax.mean(), four_bit.dynamic_map(weight.device)
    codes, absmax2 = op.absmax(absmax, offset, table)
    state2 = QuantState(absmax2, code=table, blocksize=four_bit.SCALES_A_BLOCK, dtype=torch.float32)
    return packed, QuantState(codes, weight.shape, code, blocksize, quant_type, weight.dtype, offset, state2)


def dequantize(packed: Tensor, state: QuantState) -> Tensor:
    op = calls.dequantize_4bit
    settings = (state.shape, state.blocksize, state.quant_type, state.dtype)
    packed = as_bytes(packed)
    result: Tensor = (op.nested if state.nested else op.default)(packed, *_scales(state), *settings)
    return result


def linear(x: Tensor, packed: Tensor, state: QuantState, bias: Tensor | None) -> Tensor:
    """x times the transposed weight, plus bias."""
    n, k = state.shape  # type: ignore[misc]
    if x.dim() == 0 or x.shape[-1] != k:
        raise InvalidArgument(
            f"matmul_4bit: x has shape {tuple(x.shape)}, but its last dimension must be {k}: the weight is [{n}, {k}]"
        )
    return _frozen_linear.linear(x, (as_bytes(packed), _scales(state), (n, k), state.blocksize, state.quant_type), bias)


def grouped(x: Tensor, packed: Tensor, state: QuantState, ends: Tensor) -> Tensor:
    """Rows of x, sorted by expert, times the transposed weights [experts, n, k] of theirs."""
    _, n, k = state.shape  # type: ignore[misc]
    if x.dim() != 2 or x.shape[-1] != k:
        raise InvalidArgument(
            f"matmul_4bit_grouped: x has shape {tuple(x.shape)}, but must have two dimensions, the last of {k}"
        )
    op = calls.matmul_4bit_grouped
    function = op.default if state.state2 is None else op.nested
    y: Tensor = function(x, as_bytes(packed), *_scales(state), ends, n, state.blocksize, state.quant_type)
    return y


def scales(state: QuantState) -> Tensor:
    """One float32 a block, of plain or of quantized scales."""
    if state.state2 is None:
        return in_float32(state.absmax)
    codes, absmax2, table, offset = _scales(state)
    each = absmax2.repeat_interleave(four_bit.SCALES_A_BLOCK)[: codes.numel()]
    result: Tensor = table[codes.int()] * each + offset
    return result


def in_float32(part: Any) -> Any:
    """Scales, their values and their offset as the operators take them. A checkpoint, or a program that converts all
    tensors of a state to its own type, may hold others."""
    return part if part.dtype is torch.float32 or not part.dtype.is_floating_point else part.float()


def _scales(state: QuantState) -> tuple[Any, ...]:
    """As the operators' overloads take them."""
    second = state.state2
    if second is None:
        return (in_float32(state.absmax),)
    return state.absmax, in_float32(second.absmax), in_float32(second.code), in_float32(state.offset)
