# SPDX-License-Identifier: MIT
"""RMSprop."""

from __future__ import annotations

from typing import Any

from kernelwright.errors import Unsupported
from kernelwright.optim._base import Optimizer8bit

__all__ = ["RMSprop", "RMSprop8bit", "RMSprop32bit"]


class RMSprop(Optimizer8bit):
    """Divides gradients by the root of a mean of their squares; `alpha` is how much of that is kept."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        if alpha == 0 or centered or momentum:
            raise Unsupported(f"{type(self).__name__} does not support alpha=0, centered=True or a momentum")
        super().__init__(
            "rmsprop", params, lr, (alpha, momentum), eps, weight_decay, optim_bits, args, min_8bit_size,
        )  # fmt: skip


class RMSprop8bit(RMSprop):
    """RMSprop with states of 8 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, alpha, eps, weight_decay, momentum, centered, 8, args, min_8bit_size)


class RMSprop32bit(RMSprop):
    """RMSprop with states of 32 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, alpha, eps, weight_decay, momentum, centered, 32, args, min_8bit_size)
