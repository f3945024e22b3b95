# SPDX-License-Identifier: MIT
"""Whose product is faster on this CPU: bitsandbytes' on codes it has reordered, or kernelwright's on codes in order.

bitsandbytes reorders codes where the CPU has AVX512-BF16, and multiplies with bfloat16 instructions then. With one row
a product is bound by reading the weight, and kernelwright's is faster; with some more rows that depends on the CPU.
Importing this file imports torch.
"""

from __future__ import annotations

import math
import time
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.integrations import _bitsandbytes_kernels as ours
from kernelwright.nn import _four_bit

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_SHAPE = 2048, 2048
_ROWS = 1, 4, 16, 64
_TURNS = 5


def _seconds(call: Callable[[], Any]) -> float:
    """The shortest of some calls after a first one."""
    call()
    times = []
    for _ in range(_TURNS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _ratio(rows: int, convert: Callable[..., Any]) -> float:
    """Our time divided by theirs."""
    import bitsandbytes

    weight = torch.ones(_SHAPE, dtype=torch.bfloat16, device="cpu")
    x = torch.ones(rows, _SHAPE[1], dtype=torch.bfloat16, device="cpu")
    settings: dict[str, Any] = {"quant_type": "nf4", "compress_statistics": False}
    packed, state = _four_bit.quantize(weight, blocksize=64, quant_storage=torch.uint8, **settings)
    reordered, their_state = bitsandbytes.functional.quantize_4bit(weight, **settings)
    reordered, their_state = convert(reordered, their_state)
    codes: Tensor = packed

    def here() -> Any:
        return ours.gemm(x, codes, _SHAPE, state.absmax, 64, "nf4")

    def there() -> Any:
        of = their_state.absmax, their_state.code, their_state.blocksize
        return torch.ops.bitsandbytes.gemv_4bit.default(x, reordered, _SHAPE, *of)

    return _seconds(here) / _seconds(there)


@cache
def reordered_is_faster(convert: Callable[..., Any]) -> bool:
    """Measured once in a process, some hundredths of a second: the mean of rows from 1 to 64, by ratio."""
    with torch.inference_mode():
        return sum(math.log(_ratio(rows, convert)) for rows in _ROWS) > 0
