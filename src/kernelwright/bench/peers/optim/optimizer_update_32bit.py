# SPDX-License-Identifier: MIT
"""Who else has this operator. Each public function imports one peer and gives its calls by overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], Any]


def bitsandbytes() -> dict[str, Callable[..., Call]]:
    """bitsandbytes."""
    import bitsandbytes  # noqa: F401 - it registers the operators
    import torch

    operator = torch.ops.bitsandbytes.optimizer_update_32bit.default

    def bind(param: Any, grad: Any, *rest: Any) -> Call:
        *held, rule, step, lr, beta1, beta2, beta3, alpha, eps, decay, scale = rest
        states = (*held, None)[:2]
        betas = beta1, beta2, beta3
        return lambda: operator(rule, grad, param, *states, None, 0.0, 0.0, *betas, alpha, eps, decay, step, lr, scale)

    return {"default": bind, "one_state": bind}
