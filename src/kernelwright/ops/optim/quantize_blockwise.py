# SPDX-License-Identifier: MIT
"""Block-wise quantization to 8 bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, require_dtype
from kernelwright.ops.optim import _blockwise as blockwise
from kernelwright.ops.optim._maps import dynamic_map

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME = "quantize_blockwise"


def quantize_blockwise(x: Tensor, code: Tensor | None = None, blocksize: int = 4096) -> tuple[Tensor, Tensor]:
    """Quantizes a tensor to 8 bits an element, with one scale a block.

    x          float32, float16, bfloat16 or float64, of any shape, on the CPU or a GPU; computed in float32
    code       256 values in order, from -1 (or 0) to 1, float32, on the device of x: those of create_dynamic_map() and
               its like in kernelwright.optim. None: create_dynamic_map()
    blocksize  32, 64, 128, 256, 512, 1024, 2048 or 4096 elements. Blocks go on across rows; the last may be short

    Returns `(codes, absmax)`: uint8 of the shape of x, for each element the place of the nearest value in `code` (of
    two as near the even one), as bitsandbytes' CUDA library has it; and the scales, float32, one a block. A block of
    zeros, or with a NaN, has codes 0. Not differentiable.

    >>> codes, absmax = kernelwright.quantize_blockwise(x, blocksize=256)
    """
    table = dynamic_map(True, x.device) if code is None else code
    found: tuple[Tensor, Tensor] = calls.quantize_blockwise.default(x, table, blocksize)
    return found


def _fake(x: Tensor, map: Tensor, blocksize: int) -> tuple[Tensor, Tensor]:  # noqa: A002 - the schema's
    import torch

    require_dtype(_NAME, "x", x, blockwise.dtypes(blockwise.FLOATS))
    blockwise.check_blocksize(_NAME, blocksize)
    blockwise.check_map(_NAME, map, x)
    codes = torch.empty_like(x, dtype=torch.uint8, memory_format=torch.contiguous_format)
    return codes, x.new_empty(blockwise.blocks(x.numel(), blocksize), dtype=torch.float32)


def _bind(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    numbers = dtype_codes(library, blockwise.FLOATS[:3])
    place, call = placement(library, key), library.functions["kw_call"]
    pack, function = library.packer("kw_quantize_blockwise")

    def run(x: Tensor, map: Tensor, blocksize: int) -> tuple[Tensor, Tensor]:  # noqa: A002 - the schema's
        codes, absmax = _fake(x, map, blocksize)
        refuse_freed(_NAME, x=x, map=map)
        if codes.numel():
            x = (x if x.dtype in numbers else x.float()).contiguous()
            table = map.contiguous()
            device, stream = place(x)
            to, of = (codes.data_ptr(), absmax.data_ptr()), (x.data_ptr(), table.data_ptr(), x.numel())
            status = call(pack(function, device, stream, *to, *of, blocksize, numbers[x.dtype]))
            if status:
                library.fail("kw_quantize_blockwise", status)
        return codes, absmax

    return run


OP = Op(
    name=_NAME,
    doc="block-wise quantization to 8 bits by a map of 256 values",
    function=quantize_blockwise,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor map, int blocksize) -> (Tensor, Tensor)",
            bind=_bind,
            fake=_fake,
            reference=blockwise.quantize,
            terms=blockwise.terms_of_quantize,
            fixed=("map",),
        ),
    ),
    cases=blockwise.CASES,
    benchmarks=blockwise.BENCHMARKS,
    make=blockwise.make_quantize,
    bytes=blockwise.traffic,
    flops=lambda case: 10 * math.prod(case.shape),  # a comparison for the scale, a product, eight for the code
    tolerances=blockwise.EXACT,
    selfcheck=blockwise.selfcheck_quantize,
)
