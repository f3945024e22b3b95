# SPDX-License-Identifier: MIT
"""LARS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument, Unsupported
from kernelwright.optim._base import Optimizer8bit

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = ["LARS", "LARS8bit", "LARS32bit", "PytorchLARS"]


class LARS(Optimizer8bit):
    """Momentum whose update is at most `max_unorm` times as long as the parameter; with states of 8 bits without that
    limit, as in bitsandbytes."""

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
        max_unorm: float = 0.02,
    ) -> None:
        if momentum == 0:
            raise Unsupported(f"{type(self).__name__}: momentum is 0, but there must be some")
        if dampening or nesterov:
            raise Unsupported(f"{type(self).__name__} does not support dampening or nesterov=True; PytorchLARS does")
        super().__init__(
            "lars", params, lr, (momentum, dampening), 0.0, weight_decay, optim_bits, args, min_8bit_size,
            max_unorm=max_unorm,
        )  # fmt: skip


class LARS8bit(LARS):
    """LARS with states of 8 bits."""

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
        max_unorm: float = 0.02,
    ) -> None:
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, 8, args, min_8bit_size, max_unorm)


class LARS32bit(LARS):
    """LARS with states of 32 bits."""

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
        max_unorm: float = 0.02,
    ) -> None:
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, 32, args, min_8bit_size, max_unorm)


class PytorchLARS(torch.optim.Optimizer):
    """LARS of plain torch operations, with dampening and Nesterov's momentum; states are like the parameters."""

    def __init__(
        self,
        params: Any,
        lr: float = 0.01,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        max_unorm: float = 0.02,
    ) -> None:
        for name, value in {"learning rate": lr, "momentum": momentum, "weight_decay": weight_decay}.items():
            if value < 0:
                raise InvalidArgument(f"PytorchLARS: {name} is {value}, but must not be negative")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise InvalidArgument("PytorchLARS: nesterov needs a momentum, and no dampening")
        numbers = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**numbers, "nesterov": nesterov, "max_unorm": max_unorm})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._step(p, group)
        return loss

    def _step(self, p: Tensor, group: dict[str, Any]) -> None:
        state, momentum = self.state[p], group["momentum"]
        grad = p.grad.add(p, alpha=group["weight_decay"]) if group["weight_decay"] else p.grad.clone()
        change = grad
        if momentum:
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = grad.clone()
            else:
                state["momentum_buffer"].mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            held = state["momentum_buffer"]
            change = grad + held * momentum if group["nesterov"] else held
        if group["max_unorm"] > 0:
            most, length = group["max_unorm"] * p.norm(), change.norm()
            change = change * torch.where(length > most, most / length, 1.0)
        p.add_(change, alpha=-group["lr"])
