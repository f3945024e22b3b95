# SPDX-License-Identifier: MIT
"""Who else has RMSNorm. Each public function imports one peer and gives its calls by overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], Any]

MODE = 0.0, "llama"  # no offset on the weight; float32 for the root alone, as most models have it
STAGES = 2  # what its forward pass chooses


def liger() -> dict[str, Callable[..., Call]]:
    """liger-kernel. Its backward pass is given the roots of its forward pass, and writes over its copy of `grad`."""
    from liger_kernel.ops import fused_add_rms_norm as added
    from liger_kernel.ops import rms_norm as plain

    def default(x: Any, weight: Any, eps: float) -> Call:
        return lambda: plain.rms_norm_forward(x, weight, eps, *MODE, None)[0]

    def residual(x: Any, residual: Any, weight: Any, eps: float) -> Call:
        return lambda: added.fused_add_rms_norm_forward(x, residual, weight, eps, *MODE)[:2]

    def backward(grad: Any, h: Any, weight: Any, grad_sum: Any, eps: float, weight_grad: bool) -> Call:
        grad = grad.clone()
        _, h, rstd, block, warps, mode = plain.rms_norm_forward(h, weight, eps, *MODE, None)
        if grad_sum is None:
            return lambda: plain.rms_norm_backward(
                grad, h, weight, rstd, 0.0, mode, block, warps, True, None, weight_grad
            )
        return lambda: added.fused_add_rms_norm_backward(
            grad, grad_sum, h, weight, rstd, 0.0, mode, block, warps, STAGES, True, weight_grad
        )[::2]

    return {"default": default, "residual": residual, "backward": backward}
