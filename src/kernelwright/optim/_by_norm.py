# SPDX-License-Identifier: MIT
"""A step whose update is at most so long as a share of the parameter: LAMB and LARS with states of 32 bits.

In torch: the length of the whole update decides, so that two passes are needed. Nothing waits for the GPU.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.ops.optim._optimizer import wide

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.ops.optim._optimizer import Step

RULES = ("adam", "momentum")


def update(
    rule: str, p: Tensor, grad: Tensor, state: dict[str, Any], n: Step, max_unorm: float, norm: Any = None
) -> None:
    """In place; `state["unorm_vec"]`, unless None, gets the update's length. `norm` is the parameter's, if known."""
    kind = wide(p)
    g, w, first = grad.to(kind) * n.grad_scale, p.to(kind), state["state1"]
    most = max_unorm * torch.as_tensor(w.norm() if norm is None else norm, dtype=kind, device=w.device)
    if rule == "adam":
        second, under = state["state2"], math.sqrt(1 - n.beta2**n.step)
        first.mul_(n.beta1).add_(g, alpha=1 - n.beta1)
        second.mul_(n.beta2).addcmul_(g, g, value=1 - n.beta2)
        if n.weight_decay > 0:
            w = w * (1 - n.lr * n.weight_decay)
        change, size = first / (second.sqrt() + n.eps * under), n.lr * under / (1 - n.beta1**n.step)
    else:
        g = g.add(w, alpha=n.weight_decay) if n.weight_decay > 0 else g
        if n.step == 1:
            first.copy_(g)
        else:
            first.mul_(n.beta1).add_(g)
        change, size = first, n.lr
    length = change.norm()
    if state["unorm_vec"] is not None:
        state["unorm_vec"].copy_(length)
    p.copy_(w - change * (size * torch.where(length > most, most / length, 1.0)))
