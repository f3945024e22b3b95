# SPDX-License-Identifier: MIT
"""Lion."""

from __future__ import annotations

from typing import Any

from kernelwright.optim._base import Optimizer8bit

__all__ = ["Lion", "Lion8bit", "Lion32bit"]


class Lion(Optimizer8bit):
    """Moves each parameter by the learning rate, in the direction of a mean of its gradients."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-4,
        betas: Any = (0.9, 0.99),
        weight_decay: float = 0,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
        is_paged: bool = False,
    ) -> None:
        super().__init__(
            "lion", params, lr, betas, 0.0, weight_decay, optim_bits, args, min_8bit_size, is_paged=is_paged,
        )  # fmt: skip


class Lion8bit(Lion):
    """Lion with states of 8 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-4,
        betas: Any = (0.9, 0.99),
        weight_decay: float = 0,
        args: Any = None,
        min_8bit_size: int = 4096,
        is_paged: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, weight_decay, 8, args, min_8bit_size, is_paged)


class Lion32bit(Lion):
    """Lion with states of 32 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-4,
        betas: Any = (0.9, 0.99),
        weight_decay: float = 0,
        args: Any = None,
        min_8bit_size: int = 4096,
        is_paged: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, weight_decay, 32, args, min_8bit_size, is_paged)
