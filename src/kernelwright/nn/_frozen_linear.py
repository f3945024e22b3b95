# SPDX-License-Identifier: MIT
"""A product with a frozen 4-bit weight that gradients pass through, without the dispatcher between Python and Python.

The operator has a derivative of its own. To record it a call goes through torch's dispatcher, back into Python, into
autograd and again into Python, and each tensor of the weight is saved by itself; checkpointing looks at each saved one.
In a small training step that is more time than the products take. Here autograd is told of the product alone, and the
weight, which nothing can change while it is frozen, is kept beside it, as bitsandbytes keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.ops import _private as private
from kernelwright.ops._calls import calls
from kernelwright.ops._tensors import without_autocast
from kernelwright.ops.four_bit.matmul_4bit import MANY_ROWS, _make_current, by_groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Weight = tuple[Tensor, tuple[Tensor, ...], tuple[int, int], Any, Any]
    """Codes, scales as the operators' overloads take them, shape, block size, type."""

_compiling = torch.compiler.is_dynamo_compiling
_transforms = private.transforms_active() or (lambda: True)  # then all that records gradients is the operator's
_level = private.forward_level()
_autocast: dict[str, Callable[[], bool]] = {
    "cuda": lambda: torch.is_autocast_enabled("cuda"),
    "cpu": lambda: torch.is_autocast_enabled("cpu"),
}


def _is_for_torch(x: Tensor) -> bool:
    """Whether the operator would leave the product of a dequantized weight to torch, whatever its sizes."""
    return (
        x.is_cuda
        and x.numel() >= MANY_ROWS * x.shape[-1]
        and not by_groups(x.device.index)
        and x.element_size() == 2
        and not _autocast["cuda"]()
    )


def product(x: Tensor, weight: Weight, bias: Tensor | None) -> Tensor:
    """x times the transposed weight, plus bias; no gradient is recorded, or it is the operator's."""
    if not _compiling() and _is_for_torch(x):
        return torch.nn.functional.linear(x, dequantized(weight, x.dtype), bias)
    codes, scales, (n, _), blocksize, quant_type = weight
    op = calls.matmul_4bit
    function = op.default if len(scales) == 1 else op.nested
    found: Tensor = function(x, codes, *scales, bias, n, blocksize, quant_type)
    return found


def dequantized(weight: Weight, dtype: torch.dtype) -> Tensor:
    codes, scales, shape, blocksize, quant_type = weight
    op = calls.dequantize_4bit
    found: Tensor = (op.default if len(scales) == 1 else op.nested)(codes, *scales, shape, blocksize, quant_type, dtype)
    return found


def gradient_of_x(grad: Tensor, weight: Weight) -> Tensor:
    """What reaches x: the gradient of the product times the weight."""
    if grad.is_cuda:
        _make_current(grad.device)
    kind = grad.device.type
    if kind not in _autocast or _autocast[kind]():  # backward() may be called within it
        with without_autocast(grad.device):
            return torch.matmul(grad, dequantized(weight, grad.dtype))
    return torch.matmul(grad, dequantized(weight, grad.dtype))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, weight: Weight) -> Tensor:
        ctx.weight = weight
        ctx.wanted = ctx.needs_input_grad[0], bias.shape if ctx.needs_input_grad[1] and bias is not None else None
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        by_x, of_bias = ctx.wanted
        return (
            gradient_of_x(grad, ctx.weight) if by_x else None,
            None if of_bias is None else grad.reshape(-1, grad.shape[-1]).sum(0).view(of_bias),
            None,
        )


def linear(x: Tensor, weight: Weight, bias: Tensor | None) -> Tensor:
    """The operator, and its derivative by x and bias, by the shortest way that gives the same."""
    if (
        _compiling()
        or not torch.is_grad_enabled()
        or not (x.requires_grad or (bias is not None and bias.requires_grad))
        or _transforms()
        or _level() >= 0
        or any(tensor.requires_grad for tensor in weight[1])  # which the operator refuses
    ):
        return product(x, weight, bias)
    found: Tensor = _Linear.apply(x, bias, weight)
    return found
