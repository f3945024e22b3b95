# SPDX-License-Identifier: MIT
"""LAMB."""

from __future__ import annotations

from typing import Any

from kernelwright.errors import InvalidArgument, Unsupported
from kernelwright.optim._base import Optimizer8bit

__all__ = ["LAMB", "LAMB8bit", "LAMB32bit"]


class LAMB(Optimizer8bit):
    """Adam whose update is at most `max_unorm` times as long as the parameter; with states of 8 bits Adam's own step,
    as in bitsandbytes."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        bias_correction: bool = True,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        optim_bits: int = 32,
        args: Any = None,
        min_8bit_size: int = 4096,
        max_unorm: float = 1.0,
    ) -> None:
        if amsgrad:
            raise InvalidArgument(f"{type(self).__name__} does not support amsgrad=True")
        if not (bias_correction and adam_w_mode):
            raise Unsupported(f"{type(self).__name__} does not support bias_correction=False or adam_w_mode=False")
        super().__init__(
            "lamb", params, lr, betas, eps, weight_decay, optim_bits, args, min_8bit_size,
            max_unorm=max_unorm,
        )  # fmt: skip


class LAMB8bit(LAMB):
    """LAMB with states of 8 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        bias_correction: bool = True,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        args: Any = None,
        min_8bit_size: int = 4096,
        max_unorm: float = 1.0,
    ) -> None:
        if max_unorm != 1.0:
            raise InvalidArgument("LAMB8bit only supports max_unorm=1.0, the default: a step in 8 bits has no limit")
        super().__init__(
            params, lr, bias_correction, betas, eps, weight_decay, amsgrad, adam_w_mode, 8, args, min_8bit_size,
            max_unorm,
        )  # fmt: skip


class LAMB32bit(LAMB):
    """LAMB with states of 32 bits."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        bias_correction: bool = True,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        args: Any = None,
        min_8bit_size: int = 4096,
        max_unorm: float = 1.0,
    ) -> None:
        super().__init__(
            params, lr, bias_correction, betas, eps, weight_decay, amsgrad, adam_w_mode, 32, args, min_8bit_size,
            max_unorm,
        )  # fmt: skip
