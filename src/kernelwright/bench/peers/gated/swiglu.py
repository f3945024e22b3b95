# SPDX-License-Identifier: MIT
"""Who else has SwiGLU. Each public function imports one peer and gives its calls by overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], Any]


def liger() -> dict[str, Callable[..., Call]]:
    """liger-kernel. Its backward pass writes over gate and up, so it gets copies of its own."""
    from liger_kernel.ops import swiglu as of

    def default(gate: Any, up: Any) -> Call:
        return lambda: of.swiglu_forward(gate, up)[2]

    def packed(x: Any) -> Call:
        return lambda: of.swiglu_fused_gate_up_forward(x)[1]

    def backward(grad: Any, gate: Any, up: Any) -> Call:
        gate, up = gate.clone(), up.clone()
        return lambda: of.swiglu_backward(gate, up, grad)

    def packed_backward(grad: Any, x: Any) -> Call:
        x = x.clone()
        return lambda: of.swiglu_fused_gate_up_backward(x, grad, in_place=True)

    return {"default": default, "packed": packed, "backward": backward, "packed_backward": packed_backward}
