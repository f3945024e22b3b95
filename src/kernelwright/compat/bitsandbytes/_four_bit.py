# SPDX-License-Identifier: MIT
"""What bitsandbytes.functional has for 4 bits."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _four_bit
from kernelwright.nn.quant_state import QuantState

if TYPE_CHECKING:
    from typing import Any

    from torch import Tensor

__all__ = [
    "QuantState",
    "dequantize_4bit",
    "dequantize_fp4",
    "dequantize_nf4",
    "gemv_4bit",
    "get_4bit_type",
    "matmul_4bit",
    "quantize_4bit",
    "quantize_fp4",
    "quantize_nf4",
]


def _require_tensor(who: str, name: str, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        raise InvalidArgument(f"{who}: {name} is a {type(value).__name__}, but must be a tensor")


def _require_state(who: str, state: Any) -> None:
    if not hasattr(state, "absmax"):  # bitsandbytes' own states will do
        raise InvalidArgument(
            f"{who}: quant_state is a {type(state).__name__}, but must be a QuantState, as quantize_4bit gives it"
        )
    lacking = [name for name in ("shape", "blocksize", "quant_type", "dtype") if getattr(state, name) is None]
    if lacking:
        raise InvalidArgument(f"{who}: quant_state lacks its {', '.join(lacking)}, as quantize_4bit gives them")


def _written(who: str, name: str, there: Tensor, value: Tensor) -> Tensor:
    """The result in the caller's tensor. `copy_` alone would repeat it, or convert it, to whatever stands there."""
    _require_tensor(who, name, there)
    if there.shape != value.shape or there.dtype != value.dtype:
        raise InvalidArgument(
            f"{who}: {name} is {tuple(there.shape)} of {there.dtype}, but the result is {tuple(value.shape)} of "
            f"{value.dtype}"
        )
    return there.copy_(value)


def quantize_4bit(
    A: Tensor,
    absmax: Tensor | None = None,
    out: Tensor | None = None,
    blocksize: int | None = None,
    compress_statistics: bool = False,
    quant_type: str = "fp4",
    quant_storage: torch.dtype = torch.uint8,
) -> tuple[Tensor, QuantState]:
    """Packs a tensor in 4 bits; returns the codes, of shape [bytes, 1] seen as quant_storage, and their state.

    absmax, out     tensors to write the scales and the codes to

    >>> packed, state = quantize_4bit(torch.randn(64, 128), quant_type="nf4", compress_statistics=True)
    """
    _require_tensor("quantize_4bit", "A", A)
    packed, state = _four_bit.quantize(
        A,
        quant_type=quant_type,
        blocksize=64 if blocksize is None else blocksize,
        compress_statistics=compress_statistics,
        quant_storage=quant_storage,
    )
    if absmax is not None:
        state.absmax = _written("quantize_4bit", "absmax", absmax, state.absmax)
    return (packed if out is None else _written("quantize_4bit", "out", out, packed)), state


def dequantize_4bit(
    A: Tensor,
    quant_state: QuantState | None = None,
    absmax: Tensor | None = None,
    out: Tensor | None = None,
    blocksize: int | None = None,
    quant_type: str = "fp4",
) -> Tensor:
    """The tensor that packed codes stand for. Without quant_state: absmax and out say what it would.

    Codes of shape [1, bytes] (a transposed weight) give the transposed tensor, as with bitsandbytes.

    >>> dequantize_4bit(packed, state).shape
    """
    _require_tensor("dequantize_4bit", "A", A)
    if quant_state is None:
        if absmax is None or out is None:
            raise InvalidArgument("dequantize_4bit: without quant_state it needs absmax and out; give either")
        code = get_4bit_type(quant_type, A.device)
        quant_state = QuantState(absmax, out.shape, code, blocksize or 64, quant_type, out.dtype)
    _require_state("dequantize_4bit", quant_state)
    found = _four_bit.dequantize(A, quant_state)
    if out is not None:
        found = _written("dequantize_4bit", "out", out, found)
    return found.t() if A.shape[0] == 1 else found


def matmul_4bit(
    A: Tensor,
    B: Tensor,
    quant_state: QuantState,
    out: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """A times the transposed weight whose codes are B, and bias. Gradients reach A and bias.

    A weight that was quantized as [K, N] is multiplied as it is, with a DeprecationWarning.

    >>> matmul_4bit(torch.randn(3, 128), packed, state).shape
    """
    for name, value in (("A", A), ("B", B)):
        _require_tensor("matmul_4bit", name, value)
    _require_state("matmul_4bit", quant_state)
    if quant_state.shape is None or len(quant_state.shape) != 2:
        raise InvalidArgument(
            "matmul_4bit: quant_state must be the state of a matrix, as quantize_4bit gives it; this is "
            f"{quant_state!r}"
        )
    rows, columns = quant_state.shape
    if A.shape[-1:] == (rows,) and rows != columns:
        y = _by_columns(A, B, quant_state, bias)
    else:
        y = _four_bit.linear(A, B, quant_state, bias)
    return y if out is None else _written("matmul_4bit", "out", out, y)


def _by_columns(x: Tensor, packed: Tensor, state: QuantState, bias: Tensor | None) -> Tensor:
    """The form of old programs: a weight that was quantized as [K, N]. A square one is taken for [N, K]."""
    if not torch.compiler.is_dynamo_compiling():
        warnings.warn(
            f"matmul_4bit: this weight was quantized from a [K, N] tensor ({list(state.shape or ())}); quantize it "
            "from [N, K] (out_features, in_features), which is multiplied without dequantizing it",
            DeprecationWarning,
            stacklevel=3,
        )
    return torch.nn.functional.linear(x, _four_bit.dequantize(packed, state).to(x.dtype).t(), bias)


def gemv_4bit(
    A: Tensor,
    B: Tensor,
    out: Tensor | None = None,
    transposed_A: bool = False,
    transposed_B: bool = False,
    state: QuantState | None = None,
) -> Tensor:
    """As matmul_4bit without bias; transposed_A and transposed_B mean nothing, as in bitsandbytes."""
    del transposed_A, transposed_B
    if state is None:
        raise InvalidArgument("gemv_4bit: it needs state, as quantize_4bit gives it")
    return matmul_4bit(A, B, state, out)


def get_4bit_type(typename: str, device: Any = "cuda", blocksize: int = 64) -> Tensor:
    """The 16 values of "nf4" or "fp4", float32.

    >>> get_4bit_type("nf4", "cpu")
    """
    del blocksize  # neither type has other values for another one
    return _four_bit.values(typename, device)


def quantize_nf4(
    A: Tensor,
    absmax: Tensor | None = None,
    out: Tensor | None = None,
    blocksize: int | None = None,
    compress_statistics: bool = False,
    quant_storage: torch.dtype = torch.uint8,
) -> tuple[Tensor, QuantState]:
    return quantize_4bit(A, absmax, out, blocksize, compress_statistics, "nf4", quant_storage)


def quantize_fp4(
    A: Tensor,
    absmax: Tensor | None = None,
    out: Tensor | None = None,
    blocksize: int | None = None,
    compress_statistics: bool = False,
    quant_storage: torch.dtype = torch.uint8,
) -> tuple[Tensor, QuantState]:
    return quantize_4bit(A, absmax, out, blocksize, compress_statistics, "fp4", quant_storage)


dequantize_nf4 = partial(dequantize_4bit, quant_type="nf4")  # it is the last argument: the others can stand by position
dequantize_fp4 = partial(dequantize_4bit, quant_type="fp4")
