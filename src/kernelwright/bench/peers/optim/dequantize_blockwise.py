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

    operator = torch.ops.bitsandbytes.dequantize_blockwise.default

    def default(*arguments: Any) -> Call:
        return lambda: operator(*arguments)

    return {"default": default}
