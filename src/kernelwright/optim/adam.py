# SPDX-License-Identifier: MIT
"""Adam, AdamW and AdEMAMix."""

from __future__ import annotations

from typing import Any, ClassVar

from kernelwright.errors import InvalidArgument
from kernelwright.optim._base import Optimizer8bit

__all__ = [
    "AdEMAMix",
    "AdEMAMix8bit",
    "AdEMAMix32bit",
    "Adam",
    "Adam8bit",
    "Adam32bit",
    "AdamW",
    "AdamW8bit",
    "AdamW32bit",
]


class Adam(Optimizer8bit):
    """Adam with states of `optim_bits` bits, 32 or 8; tensors of fewer than `min_8bit_size` elements have 32."""

    _bits: ClassVar[int | None] = None

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
        if amsgrad:
            raise InvalidArgument(f"{type(self).__name__} does not support amsgrad=True")
        if self._bits is not None and optim_bits != 32:
            raise ValueError(f"{type(self).__name__} only supports optim_bits=32, the default")
        bits = self._bits or optim_bits
        super().__init__("adam", params, lr, betas, eps, weight_decay, bits, args, min_8bit_size, is_paged=is_paged)


class Adam8bit(Adam):
    """Adam with states of 8 bits."""

    _bits = 8


class Adam32bit(Adam):
    """Adam with states of 32 bits."""

    _bits = 32


class AdamW(Adam):
    """Adam with a weight decay by default; it shrinks parameters directly, in Adam too."""

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
        is_paged: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, optim_bits, args, min_8bit_size, is_paged)


class AdamW8bit(AdamW):
    """AdamW with states of 8 bits."""

    _bits = 8


class AdamW32bit(AdamW):
    """AdamW with states of 32 bits."""

    _bits = 32


class AdEMAMix(Optimizer8bit):
    """Adam with a second, slower mean of gradients, which counts `alpha` times.

    t_alpha, t_beta3  steps over which alpha grows from 0, and beta3 from beta1; None: from the start as they are
    """

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
        is_paged: bool = False,
    ) -> None:
        super().__init__(
            "ademamix", params, lr, betas, eps, weight_decay, optim_bits, None, min_8bit_size,
            is_paged=is_paged, alpha=alpha, t_alpha=t_alpha, t_beta3=t_beta3,
        )  # fmt: skip


class AdEMAMix8bit(AdEMAMix):
    """AdEMAMix with states of 8 bits."""

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
        is_paged: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, alpha, t_alpha, t_beta3, eps, weight_decay, 8, min_8bit_size, is_paged)


class AdEMAMix32bit(AdEMAMix):
    """AdEMAMix with states of 32 bits."""

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
        is_paged: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, alpha, t_alpha, t_beta3, eps, weight_decay, 32, min_8bit_size, is_paged)
