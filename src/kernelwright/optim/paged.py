# SPDX-License-Identifier: MIT
"""Optimizers whose states lie in the host's memory, and come to the GPU for their step.

States of parameters of 100,000 elements and more are paged; a CPU's stay as they are, with a warning.
"""

from __future__ import annotations

from typing import Any

from kernelwright.optim.adam import Adam, AdamW, AdEMAMix
from kernelwright.optim.lion import Lion

__all__ = [
    "PagedAdEMAMix",
    "PagedAdEMAMix8bit",
    "PagedAdEMAMix32bit",
    "PagedAdam",
    "PagedAdam8bit",
    "PagedAdam32bit",
    "PagedAdamW",
    "PagedAdamW8bit",
    "PagedAdamW32bit",
    "PagedLion",
    "PagedLion8bit",
    "PagedLion32bit",
]


class PagedAdam(Adam):
    """Adam with paged states."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
        is_paged: bool = False,
    ) -> None:
        del is_paged  # it is, whatever is given, as in bitsandbytes
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, optim_bits, args, min_8bit_size, True)


class PagedAdam8bit(PagedAdam):
    """Adam with paged states of 8 bits."""

    _bits = 8


class PagedAdam32bit(PagedAdam):
    """Adam with paged states of 32 bits."""

    _bits = 32


class PagedAdamW(AdamW):
    """AdamW with paged states."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, optim_bits, args, min_8bit_size, True)


class PagedAdamW8bit(PagedAdamW):
    """AdamW with paged states of 8 bits."""

    _bits = 8


class PagedAdamW32bit(PagedAdamW):
    """AdamW with paged states of 32 bits."""

    _bits = 32


class PagedAdEMAMix(AdEMAMix):
    """AdEMAMix with paged states."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999, 0.9999),
        alpha: float = 5.0,
        t_alpha: int | None = None,
        t_beta3: int | None = None,
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        optim_bits: int = 32,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, betas, alpha, t_alpha, t_beta3, eps, weight_decay, optim_bits, min_8bit_size, True)


class PagedAdEMAMix8bit(AdEMAMix):
    """AdEMAMix with paged states of 8 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999, 0.9999),
        alpha: float = 5.0,
        t_alpha: int | None = None,
        t_beta3: int | None = None,
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, betas, alpha, t_alpha, t_beta3, eps, weight_decay, 8, min_8bit_size, True)


class PagedAdEMAMix32bit(AdEMAMix):
    """AdEMAMix with paged states of 32 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999, 0.9999),
        alpha: float = 5.0,
        t_alpha: int | None = None,
        t_beta3: int | None = None,
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, betas, alpha, t_alpha, t_beta3, eps, weight_decay, 32, min_8bit_size, True)


class PagedLion(Lion):
    """Lion with paged states."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-4,
        betas: Any = (0.9, 0.99),
        weight_decay: float = 0,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, betas, weight_decay, optim_bits, args, min_8bit_size, True)


class PagedLion8bit(Lion):
    """Lion with paged states of 8 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-4,
        betas: Any = (0.9, 0.99),
        weight_decay: float = 0,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, betas, weight_decay, 8, args, min_8bit_size, True)


class PagedLion32bit(Lion):
    """Lion with paged states of 32 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-4,
        betas: Any = (0.9, 0.99),
        weight_decay: float = 0,
        args: Any = None,
        min_8bit_size: int = 4096,
    ) -> None:
        super().__init__(params, lr, betas, weight_decay, 32, args, min_8bit_size, True)
