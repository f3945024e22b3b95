# SPDX-License-Identifier: MIT
"""The product of bitsandbytes' layers by a shorter way than its own. Importing this file imports torch.

bitsandbytes' `matmul_4bit` goes through torch's dispatcher to a kernel written in Python, and each look at a weight
goes through the `__torch_function__` of its class. Between two kernels of a small batch that takes longer than they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.integrations._bitsandbytes_kernels import scales_of
from kernelwright.nn import _frozen_linear
from kernelwright.nn._four_bit import in_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_USUAL = (torch.Tensor, torch.nn.Parameter)
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_compiling = torch.compiler.is_dynamo_compiling
_as_it_is = torch._C.DisableTorchFunctionSubclass  # noqa: SLF001 - it has no public name


def matmul_4bit(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """bitsandbytes' function of this name; what is not plain it serves as before, by its operators."""

    def matmul_4bit(
        A: Tensor,  # noqa: N803 - the names that programs pass by
        B: Tensor,  # noqa: N803
        quant_state: Any,
        out: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Any:
        if _compiling() or out is not None or type(A) not in _USUAL or A.dtype not in _FLOATS:
            return theirs(A, B, quant_state, out=out, bias=bias)
        with _as_it_is():
            weight = _weight(A, B, quant_state)
            if weight is not None and (bias is None or bias.dtype is A.dtype):
                return _frozen_linear.linear(A, weight, bias)
        return theirs(A, B, quant_state, out=out, bias=bias)

    return matmul_4bit


def _weight(x: Tensor, packed: Tensor, state: Any) -> _frozen_linear.Weight | None:
    """None: the weight lies transposed, reordered or quantized in another way, or there is nothing to compute."""
    shape = state.shape
    if len(shape) != 2 or x.shape[-1] != shape[1] or not x.numel() or getattr(state, "packing_format_for_cpu", False):
        return None
    second = state.state2
    if second is not None and second.blocksize != 256:
        return None
    codes = packed.view(-1, 1)  # a plain tensor, whatever class the weight has
    if codes.dtype is not torch.uint8:
        codes = codes.view(torch.uint8)
    scales = (
        (in_float32(state.absmax),)
        if second is None
        else scales_of(second.absmax, state.absmax, second.code, state.offset)
    )
    return codes, scales, tuple(shape), state.blocksize, state.quant_type
