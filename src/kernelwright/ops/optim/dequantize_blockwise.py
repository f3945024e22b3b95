# SPDX-License-Identifier: MIT
"""8-bit codes of a map back to floats."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, require_dtype
from kernelwright.ops.optim import _blockwise as blockwise
from kernelwright.ops.optim._maps import dynamic_map

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME = "dequantize_blockwise"


def dequantize_blockwise(
    codes: Tensor, absmax: Tensor, code: Tensor | None = None, blocksize: int = 4096, dtype: Any = None
) -> Tensor:
    """The floats that quantize_blockwise's codes stand for: `code[codes] * absmax`, rounded once.

    codes      uint8, of any shape, on the CPU or a GPU
    absmax     float32, one scale for each block of `blocksize` elements
    code       the 256 values they were quantized with, float32; None: create_dynamic_map()
    blocksize  as it was quantized
    dtype      float32 (the default), float16, bfloat16 or float64 of the result

    Returns a tensor of the shape of `codes`, contiguous. Not differentiable.

    >>> x = kernelwright.dequantize_blockwise(codes, absmax, blocksize=256, dtype=torch.bfloat16)
    """
    import torch

    table = dynamic_map(True, codes.device) if code is None else code
    found: Tensor = calls.dequantize_blockwise.default(codes, absmax, table, blocksize, dtype or torch.float32)
    return found


def _fake(codes: Tensor, absmax: Tensor, map: Tensor, blocksize: int, dtype: Any) -> Tensor:  # noqa: A002
    import torch

    if dtype not in (allowed := blockwise.dtypes(blockwise.FLOATS)):
        raise InvalidArgument(f"{_NAME}: dtype is {dtype}, but must be {' or '.join([str(kind) for kind in allowed])}")
    require_dtype(_NAME, "codes", codes, blockwise.dtypes(("uint8",)))
    blockwise.check_blocksize(_NAME, blocksize)
    number = blockwise.blocks(codes.numel(), blocksize)
    blockwise.check_held(_NAME, "absmax", absmax, "float32", number, lambda: f"one a block of {blocksize}", codes)
    blockwise.check_map(_NAME, map, codes)
    return torch.empty_like(codes, dtype=dtype, memory_format=torch.contiguous_format)


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    numbers = dtype_codes(library, blockwise.FLOATS[:3])
    place, call = placement(library, key), library.functions["kw_call"]
    pack, function = library.packer("kw_dequantize_blockwise")

    def run(codes: Tensor, absmax: Tensor, map: Tensor, blocksize: int, dtype: Any) -> Tensor:  # noqa: A002
        y = _fake(codes, absmax, map, blocksize, dtype)
        refuse_freed(_NAME, codes=codes, absmax=absmax, map=map)
        if dtype not in numbers:
            return blockwise.dequantize(codes, absmax, map, blocksize, dtype)
        if y.numel():
            codes, absmax, table = codes.contiguous(), absmax.contiguous(), map.contiguous()
            device, stream = place(codes)
            of = codes.data_ptr(), absmax.data_ptr(), table.data_ptr(), codes.numel()
            status = call(pack(function, device, stream, y.data_ptr(), *of, blocksize, numbers[dtype]))
            if status:
                library.fail("kw_dequantize_blockwise", status)
        return y

    return run


OP = Op(
    name=_NAME,
    doc="8-bit codes of a map of 256 values back to floats",
    function=dequantize_blockwise,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor codes, Tensor absmax, Tensor map, int blocksize, ScalarType dtype) -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=blockwise.dequantize,
            fixed=("codes", "absmax", "map"),
        ),
    ),
    cases=blockwise.CASES,
    benchmarks=blockwise.BENCHMARKS,
    make=blockwise.make_dequantize,
    bytes=blockwise.traffic,
    flops=lambda case: math.prod(case.shape),
    tolerances=blockwise.EXACT,
    selfcheck=blockwise.selfcheck_dequantize,
)
