# SPDX-License-Identifier: MIT
"""The operators of LLM.int8 under bitsandbytes' names. Importing this file imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.integrations._bitsandbytes_kernels import write
from kernelwright.nn import _int8

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def int8_linear_matmul_out(a: Tensor, b: Tensor, out: Tensor) -> None:
    write("int8_linear_matmul", out, _int8.linear_matmul(a, b))


KERNELS: dict[str, Callable[..., Any]] = {
    "int8_vectorwise_quant": _int8.vectorwise_quant,
    "int8_vectorwise_dequant": _int8.vectorwise_dequant,
    "int8_double_quant": _int8.double_quant,
    "int8_linear_matmul": _int8.linear_matmul,
    "int8_linear_matmul.out": int8_linear_matmul_out,
    "int8_mm_dequant": _int8.mm_dequant,
    "int8_scaled_mm": _int8.scaled_mm,
    "int8_mixed_scaled_mm": _int8.mixed_scaled_mm,
}
