# SPDX-License-Identifier: MIT
"""Who else brings 4-bit tensors back. Each public function imports one peer and gives its calls by overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], Any]


def bitsandbytes() -> dict[str, Callable[..., Call]]:
    """bitsandbytes; quantized scales take it two kernels more, as its own functions do."""
    import bitsandbytes  # noqa: F401 - it registers the operators
    import torch

    operators = torch.ops.bitsandbytes

    def default(packed: Any, absmax: Any, shape: Any, blocksize: int, quant_type: str, dtype: Any) -> Call:
        packed = packed.view(-1, 1)
        return lambda: operators.dequantize_4bit.default(packed, absmax, blocksize, quant_type, shape, dtype)

    def nested(packed: Any, *rest: Any) -> Call:
        codes, absmax2, table, offset, shape, blocksize, quant_type, dtype = rest
        packed = packed.view(-1, 1)

        def call() -> Any:
            absmax = operators.dequantize_blockwise.default(codes, absmax2, table, 256, torch.float32) + offset
            return operators.dequantize_4bit.default(packed, absmax, blocksize, quant_type, shape, dtype)

        return call

    return {"default": default, "nested": nested}
