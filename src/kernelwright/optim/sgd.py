# SPDX-License-Identifier: MIT
"""Gradient descent with momentum."""

from __future__ import annotations

from typing import Any

from kernelwright.errors import Unsupported
from kernelwright.optim._base import Optimizer8bit

__all__ = ["SGD", "SGD8bit", "SGD32bit"]


class SGD(Optimizer8bit):
    """Gradient descent with momentum, which must not be 0; the first step takes the gradient itself."""

    def __init__(
        self,
        params: Any,
        lr: Any,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        if momentum == 0:
            raise Unsupported(f"{type(self).__name__}: momentum is 0, but there must be some; take torch.optim.SGD")
        if dampening or nesterov:
            raise Unsupported(f"{type(self).__name__} does not support dampening or nesterov=True")
        super().__init__(
            "momentum", params, lr, (momentum, dampening), 0.0, weight_decay, optim_bits, args, min_8bit_size,
        )  # fmt: skip


class SGD8bit(SGD):
    """SGD with states of 8 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, 8, args, min_8bit_size)


class SGD32bit(SGD):
    """SGD with states of 32 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, 32, args, min_8bit_size)
