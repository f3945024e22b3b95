# SPDX-License-Identifier: MIT
"""Who else has LayerNorm. Each public function imports one peer and gives its calls by overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], Any]


def liger() -> dict[str, Callable[..., Call]]:
    """liger-kernel. Its backward pass is given the means and roots that its forward pass saved."""
    from liger_kernel.ops import layer_norm as of

    def default(x: Any, weight: Any, bias: Any, eps: float) -> Call:
        return lambda: of.layer_norm_forward(x, weight, bias, eps)[0]

    def backward(grad: Any, h: Any, weight: Any, bias: Any, grad_sum: Any, eps: float, *wanted: bool) -> Call:
        _, h, mean, rstd, *_ = of.layer_norm_forward(h, weight, bias, eps)

        def call() -> Any:
            to_h, *rest = of.layer_norm_backward(grad, h, weight, bias, mean, rstd, *wanted)
            return (to_h if grad_sum is None else to_h + grad_sum), *rest

        return call

    return {"default": default, "backward": backward}
