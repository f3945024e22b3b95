# SPDX-License-Identifier: MIT
"""Who else quantizes to 4 bits. Each public function imports one peer and gives its calls by overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], Any]


def bitsandbytes() -> dict[str, Callable[..., Call]]:
    """bitsandbytes."""
    import bitsandbytes  # noqa: F401 - it registers the operators
    import torch

    quantize = torch.ops.bitsandbytes.quantize_4bit.default

    def default(x: Any, blocksize: int, quant_type: str) -> Call:
        def call() -> Any:
            packed, absmax = quantize(x, blocksize, quant_type, torch.uint8)
            return packed.view(-1), absmax

        return call

    return {"default": default}
