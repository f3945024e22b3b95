# SPDX-License-Identifier: MIT
"""bitsandbytes.optim.ademamix, with the definition in plain torch that its classes are compared with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.compat.bitsandbytes.optim._named import named
from kernelwright.optim import adam, paged

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = [
    "AdEMAMix",
    "AdEMAMix8bit",
    "AdEMAMix32bit",
    "PagedAdEMAMix",
    "PagedAdEMAMix8bit",
    "PagedAdEMAMix32bit",
]

AdEMAMix, AdEMAMix8bit, AdEMAMix32bit = named(__name__, adam.AdEMAMix, adam.AdEMAMix8bit, adam.AdEMAMix32bit)
PagedAdEMAMix, PagedAdEMAMix8bit, PagedAdEMAMix32bit = named(
    __name__, paged.PagedAdEMAMix, paged.PagedAdEMAMix8bit, paged.PagedAdEMAMix32bit
)


class _ReferenceAdEMAMix(torch.optim.Optimizer):
    """AdEMAMix in the parameters' own type; `m1_m2` holds both means, `nu` the mean of squares."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float, float] = (0.9, 0.999, 0.9999),
        alpha: float = 5.0,
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        t_beta3: int | None = None,
        t_alpha: int | None = None,
    ) -> None:
        numbers = {"lr": lr, "betas": betas, "alpha": alpha, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**numbers, "t_beta3": t_beta3, "t_alpha": t_alpha})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for p in group["params"]:
                if p.grad is not None:
                    self._step(p, group)
        return loss

    def _step(self, p: Tensor, group: dict[str, Any]) -> None:
        state, grad, step = self.state[p], p.grad, group["step"]
        if not state:
            state["m1_m2"], state["nu"] = p.new_zeros((2, *p.shape)), torch.zeros_like(p)
        beta1, beta2, _ = group["betas"]
        beta3, alpha = _scheduled(group)
        fast, slow, squares = state["m1_m2"][0], state["m1_m2"][1], state["nu"]
        fast.lerp_(grad, 1 - beta1)
        slow.lerp_(grad, 1 - beta3)
        squares.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        under = (squares.sqrt() / math.sqrt(1 - beta2**step)).add_(group["eps"])
        change = (fast / (1 - beta1**step) + alpha * slow) / under
        p.sub_(change.add_(p, alpha=group["weight_decay"]), alpha=group["lr"])


def _scheduled(group: dict[str, Any]) -> tuple[float, float]:
    """beta3 and alpha of this step."""
    step, alpha, (beta1, _, beta3) = group["step"], group["alpha"], group["betas"]
    if group["t_alpha"] is not None:
        alpha = min(step * alpha / group["t_alpha"], alpha)
    if group["t_beta3"] is not None:
        fast, slow, done = math.log(beta1), math.log(beta3), step / group["t_beta3"]
        beta3 = min(math.exp(fast * slow / ((1 - done) * slow + done * fast)), beta3)
    return beta3, alpha
