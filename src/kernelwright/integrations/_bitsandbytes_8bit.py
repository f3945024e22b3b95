# SPDX-License-Identifier: MIT
"""kernelwright's operators with the arguments of bitsandbytes' for block-wise codes and optimizers. Imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument, Unsupported
from kernelwright.integrations._bitsandbytes_kernels import write
from kernelwright.nn._four_bit import in_float32
from kernelwright.ops._calls import calls
from kernelwright.ops.optim import _blockwise as blockwise
from kernelwright.ops.optim._optimizer import RULES, Step
from kernelwright.optim import _by_norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_LIKE = {"lamb": "adam", "lars": "momentum"}


def quantize_blockwise(x: Tensor, code: Tensor, blocksize: int) -> tuple[Tensor, Tensor]:
    if blocksize <= 0:
        raise InvalidArgument(f"quantize_blockwise: blocksize is {blocksize}, but must be above 0")
    if blocksize in blockwise.BLOCKSIZES and code.numel() == blockwise.MAP:
        found: tuple[Tensor, Tensor] = calls.quantize_blockwise.default(x, in_float32(code), blocksize)
        return found
    return blockwise.quantize(x, in_float32(code), blocksize)  # any other map and size, in plain torch


def dequantize_blockwise(codes: Tensor, absmax: Tensor, code: Tensor, blocksize: int, dtype: torch.dtype) -> Tensor:
    if blocksize <= 0:
        raise InvalidArgument(f"dequantize_blockwise: blocksize is {blocksize}, but must be above 0")
    scales, table = in_float32(absmax), in_float32(code)
    if blocksize in blockwise.BLOCKSIZES and code.numel() == blockwise.MAP:
        found: Tensor = calls.dequantize_blockwise.default(codes, scales, table, blocksize, dtype)
        return found
    return blockwise.dequantize(codes, scales, table, blocksize, dtype)


def dequantize_blockwise_out(
    codes: Tensor, absmax: Tensor, code: Tensor, blocksize: int, dtype: torch.dtype, out: Tensor
) -> None:
    write("dequantize_blockwise", out, dequantize_blockwise(codes, absmax, code, blocksize, dtype))


def _rule(name: str) -> str:
    rule = _LIKE.get(name, name)
    if rule not in RULES:
        raise InvalidArgument(f"optimizer: {name!r} is none of {', '.join((*RULES, *_LIKE))}")
    return rule


def optimizer_update_32bit(
    optimizer_name: str,
    g: Tensor,
    p: Tensor,
    state1: Tensor,
    state2: Tensor | None,
    unorm_vec: Tensor | None,
    max_unorm: float,
    param_norm: float,
    beta1: float,
    beta2: float,
    beta3: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    step: int,
    lr: float,
    gnorm_scale: float,
    skip_zeros: bool = False,
) -> None:
    rule = _rule(optimizer_name)
    _refuse(skip_zeros)
    numbers = Step(step, lr, beta1, beta2, beta3, alpha, eps, weight_decay, gnorm_scale)
    if max_unorm > 0 and rule in _by_norm.RULES:
        held = {"state1": state1, "state2": state2, "unorm_vec": unorm_vec}
        _by_norm.update(rule, p, g, held, numbers, max_unorm, param_norm)
    elif state2 is None:
        calls.optimizer_update_32bit.one_state(p, g, state1, rule, *numbers)
    else:
        calls.optimizer_update_32bit.default(p, g, state1, state2, rule, *numbers)


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
    weight_decay: float,
    gnorm_scale: float,
    skip_zeros: bool = False,
) -> None:
    rule = _rule(optimizer_name)
    _refuse(skip_zeros)
    numbers: Any = Step(step, lr, beta1, beta2, beta3, alpha, eps, weight_decay, gnorm_scale)
    if state2 is None:
        calls.optimizer_update_8bit_blockwise.one_state(p, g, state1, absmax1, qmap1, rule, *numbers)
    else:
        states = state1, state2, absmax1, absmax2, qmap1, qmap2
        calls.optimizer_update_8bit_blockwise.default(p, g, *states, rule, *numbers)


def _refuse(skip_zeros: bool) -> None:
    if skip_zeros:
        raise Unsupported("optimizer: skip_zeros=True is not supported; leave it out")


KERNELS: dict[str, Callable[..., Any]] = {
    "quantize_blockwise": quantize_blockwise,
    "dequantize_blockwise": dequantize_blockwise,
    "dequantize_blockwise.out": dequantize_blockwise_out,
    "optimizer_update_32bit": optimizer_update_32bit,
    "optimizer_update_8bit_blockwise": optimizer_update_8bit_blockwise,
}
