# SPDX-License-Identifier: MIT
"""Who else multiplies with 4-bit weights. Each public function imports one peer and gives its calls by overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], Any]


def bitsandbytes() -> dict[str, Callable[..., Call]]:
    """bitsandbytes' own operator, which chooses between its kernels and a dequantized weight."""
    import bitsandbytes  # noqa: F401 - it registers the operators
    import torch

    multiply = torch.ops.bitsandbytes.gemm_4bit.default

    def default(x: Any, packed: Any, absmax: Any, bias: Any, n: int, blocksize: int, quant_type: str) -> Call:
        shape, packed = (n, x.shape[-1]), packed.view(-1, 1)
        return lambda: multiply(x, packed, shape, absmax, blocksize, quant_type, bias=bias)

    def nested(x: Any, packed: Any, *rest: Any) -> Call:
        codes, absmax2, table, offset, bias, n, blocksize, quant_type = rest
        shape, packed = (n, x.shape[-1]), packed.view(-1, 1)
        scales = {"absmax_8bit": codes, "absmax_code": table, "absmax_offset": offset}
        return lambda: multiply(x, packed, shape, absmax2, blocksize, quant_type, bias=bias, **scales)

    return {"default": default, "nested": nested}


def dense() -> dict[str, Callable[..., Call]]:
    """Our dequantize and torch's product, in turn: what large x are multiplied by."""
    from kernelwright.ops.four_bit.matmul_4bit import by_torch

    def call(x: Any, *rest: Any) -> Call:
        def run() -> Any:
            y = x.new_empty((*x.shape[:-1], rest[-3]))  # n
            by_torch(y, x, *rest)
            return y

        return run

    return {"default": call, "nested": call}
