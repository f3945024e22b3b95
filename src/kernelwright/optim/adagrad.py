# SPDX-License-Identifier: MIT
"""Adagrad."""

from __future__ import annotations

from typing import Any

from kernelwright.errors import InvalidArgument
from kernelwright.optim._base import Optimizer8bit

__all__ = ["Adagrad", "Adagrad8bit", "Adagrad32bit"]


class Adagrad(Optimizer8bit):
    """Divides gradients by the root of the sum of their squares."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        if initial_accumulator_value or lr_decay:
            raise InvalidArgument(f"{type(self).__name__} does not support initial_accumulator_value or lr_decay")
        super().__init__(
            "adagrad", params, lr, (0.0, 0.0), eps, weight_decay, optim_bits, args, min_8bit_size,
        )  # fmt: skip


class Adagrad8bit(Adagrad):
    """Adagrad with states of 8 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        optim_bits: int = 8,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        if optim_bits != 8:
            raise ValueError("Adagrad8bit only supports optim_bits=8, the default")
        super().__init__(params, lr, lr_decay, weight_decay, initial_accumulator_value, eps, 8, args, min_8bit_size)


class Adagrad32bit(Adagrad):
    """Adagrad with states of 32 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        if optim_bits != 32:
            raise ValueError("Adagrad32bit only supports optim_bits=32, the default")
        super().__init__(params, lr, lr_decay, weight_decay, initial_accumulator_value, eps, 32, args, min_8bit_size)
