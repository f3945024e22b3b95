# SPDX-License-Identifier: MIT
"""What flash-attn's functions are refused for: by the argument's name, never by leaving it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument, InvalidDtype, Unsupported

if TYPE_CHECKING:
    from torch import Tensor


def refuse(function: str, argument: str, value: Any, instead: str) -> None:
    raise Unsupported(f"{function}: {argument}={value!r} is not supported by kernelwright.compat.flash_attn; {instead}")


def check(function: str, dropout_p: float, *tensors: Tensor) -> None:
    """What all functions ask of their arguments, in flash-attn's words where it has some."""
    if dropout_p:
        refuse(function, "dropout_p", dropout_p, "pass 0.0, as in evaluation")
    first = tensors[0]
    for tensor in tensors:
        if tensor.dtype != first.dtype:
            raise InvalidDtype(f"{function}: query, key and value must have the same dtype")
    if first.dtype not in (torch.float16, torch.bfloat16) and (first.dtype != torch.float32 or first.is_cuda):
        raise InvalidDtype(f"{function}: FlashAttention only support fp16 and bf16 data type (found {first.dtype})")


def window_of(function: str, window_size: Any) -> tuple[int, int]:
    left, right = window_size
    if not isinstance(left, int) or not isinstance(right, int):
        raise InvalidArgument(f"{function}: window_size is {window_size!r}, but must be two whole numbers, -1 for all")
    return max(left, -1), max(right, -1)


def packed(function: str, name: str, tensor: Tensor, count: int, dims: int) -> tuple[Tensor, ...]:
    """The parts of a tensor that has q, k and v, or k and v, in its third dimension from the end."""
    if tensor.dim() != dims or tensor.shape[-3] != count:
        raise InvalidArgument(
            f"{function}: {name} has shape {tuple(tensor.shape)}, but must have {dims} dimensions with {count} in the "
            "third from the end"
        )
    return tensor.unbind(-3)
