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

    operator = torch.ops.bitsandbytes.optimizer_update_8bit_blockwise.default

    def bind(param: Any, grad: Any, *rest: Any) -> Call:
        *held, rule, step, lr, beta1, beta2, beta3, alpha, eps, decay, scale = rest
        half = len(held) // 3
        states, absmax, maps = ((*held[i : i + half], None)[:2] for i in (0, half, 2 * half))
        return lambda: operator(
            rule, grad, param, *states, beta1, beta2, beta3, alpha, eps, step, lr, *maps, *absmax, decay, scale
        )

    return {"default": bind, "one_state": bind}
