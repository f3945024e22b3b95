# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.optimizer: the base classes, with bitsandbytes' arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.compat.bitsandbytes._paging import GlobalPageManager
from kernelwright.optim._base import WRAPPED, Optimizer8bit
from kernelwright.optim.manager import GlobalOptimManager

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GlobalOptimManager", "GlobalPageManager", "MockArgs", "Optimizer1State", "Optimizer2State", "Optimizer8bit"]

Optimizer8bit._FSDP_WRAPPED_QUANT_STATE_KEY = WRAPPED  # noqa: SLF001


class MockArgs:
    """Settings as attributes."""

    def __init__(self, initial_data: Mapping[str, Any]) -> None:
        vars(self).update(initial_data)


class Optimizer2State(Optimizer8bit):
    """Of an optimizer with two states, by its name."""

    def __init__(
        self,
        optimizer_name: str,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
        max_unorm: float = 0.0,
        skip_zeros: bool = False,
        is_paged: bool = False,
        alpha: float = 0.0,
        t_alpha: int | None = None,
        t_beta3: int | None = None,
    ) -> None:
        super().__init__(
            optimizer_name, params, lr, betas, eps, weight_decay, optim_bits, args, min_8bit_size, is_paged=is_paged,
            max_unorm=max_unorm, skip_zeros=skip_zeros, alpha=alpha, t_alpha=t_alpha, t_beta3=t_beta3,
        )  # fmt: skip


class Optimizer1State(Optimizer8bit):
    """Of an optimizer with one state, by its name."""

    def __init__(
        self,
        optimizer_name: str,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.0),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
        max_unorm: float = 0.0,
        skip_zeros: bool = False,
        is_paged: bool = False,
    ) -> None:
        super().__init__(
            optimizer_name, params, lr, betas, eps, weight_decay, optim_bits, args, min_8bit_size, is_paged=is_paged,
            max_unorm=max_unorm, skip_zeros=skip_zeros,
        )  # fmt: skip
