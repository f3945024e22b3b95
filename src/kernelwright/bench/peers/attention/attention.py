# SPDX-License-Identifier: MIT
"""Who else has attention. Each public function imports one peer and gives its calls by overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], Any]


def flash_attn() -> dict[str, Callable[..., Call]]:
    """flash-attn, given its own layout: heads beside each other within a row."""
    from flash_attn import flash_attn_func

    def default(
        q: Any, k: Any, v: Any, mask: Any, bias: Any, sinks: Any, slopes: Any, scale: float, causal: bool,
        left: int, right: int, softcap: float, deterministic: bool,
    ) -> Call:  # fmt: skip
        if any(tensor is not None for tensor in (mask, bias, sinks)):
            raise ValueError("flash_attn_func takes no mask, bias or sinks")
        q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in (q, k, v))
        options = {
            "softmax_scale": scale, "causal": causal, "window_size": (left, right), "softcap": softcap,
            "alibi_slopes": slopes, "deterministic": deterministic,
        }  # fmt: skip
        return lambda: flash_attn_func(q, k, v, **options).transpose(1, 2)

    return {"default": default}
