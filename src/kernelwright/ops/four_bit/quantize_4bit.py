# SPDX-License-Identifier: MIT
"""Block-wise quantization to 4 bits, and that of the scales to 8."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, require_dtype
from kernelwright.ops.four_bit import _cases as cases
from kernelwright.ops.four_bit import _reference as reference
from kernelwright.ops.four_bit import _selfcheck as selfcheck
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME = "quantize_4bit"


def quantize_4bit(
    x: Tensor, blocksize: int = 64, quant_type: str = "nf4", *, double_quant: bool = False
) -> tuple[Tensor, Tensor | four_bit.QuantizedAbsmax]:
    """Quantizes a tensor to 4 bits an element, with one scale a block; packed as bitsandbytes packs it.

    x             float32, float16, bfloat16 or float64, of any shape, on the CPU or a GPU; computed in float32
    blocksize     32, 64, 128, 256, 512, 1024, 2048 or 4096 elements. Blocks go on across rows; the last may be short
    quant_type    "nf4" (quantiles of a normal distribution) or "fp4"
    double_quant  quantize the scales too: 8 bits each, and a float32 for each 256

    Returns `(packed, absmax)`: uint8 with two elements in each byte, the first in its upper half; and the scales,
    float32, one a block, or with `double_quant` a QuantizedAbsmax. dequantize_4bit and matmul_4bit take either.
    A block with a NaN has the scale NaN; with double_quant all blocks have, as the mean of the scales is NaN.
    Not differentiable.

    >>> packed, absmax = kernelwright.quantize_4bit(weight)
    >>> packed, absmax = kernelwright.quantize_4bit(weight, 64, "nf4", double_quant=True)
    """
    op = calls.quantize_4bit
    packed, absmax = op.default(x, blocksize, quant_type)
    if not double_quant:
        return packed, absmax
    offset, table = absmax.mean(), four_bit.dynamic_map(absmax.device)
    codes, absmax2 = op.absmax(absmax, offset, table)
    return packed, four_bit.QuantizedAbsmax(codes, absmax2, table, offset)


# --- what is refused ------------------------------------------------------------


def _check(x: Tensor, blocksize: int, quant_type: str) -> None:
    require_dtype(_NAME, "x", x, four_bit.dtypes(four_bit.FLOATS))
    four_bit.check_blocksize(_NAME, blocksize)
    four_bit.check_quant_type(_NAME, quant_type)


def _check_absmax(absmax: Tensor, offset: Tensor, map: Tensor) -> None:  # noqa: A002 - the schema's
    require_dtype(_NAME, "absmax", absmax, four_bit.dtypes(("float32",)))
    four_bit.check_held(_NAME, "offset", offset, "float32", 1, lambda: "what is taken from all scales", absmax)
    four_bit.check_held(_NAME, "map", map, "float32", 256, lambda: "a value for each code of a scale", absmax)


# --- without values -------------------------------------------------------------


def _empty(count: Any, dtype: str, like: Tensor) -> Tensor:
    import torch

    return like.new_empty(count, dtype=getattr(torch, dtype))


def _fake(x: Tensor, blocksize: int, quant_type: str) -> tuple[Tensor, Tensor]:
    _check(x, blocksize, quant_type)
    count = x.numel()
    return (
        _empty(four_bit.packed_bytes(count), "uint8", x),
        _empty(four_bit.blocks(count, blocksize), "float32", x),
    )


def _fake_absmax(absmax: Tensor, offset: Tensor, map: Tensor) -> tuple[Tensor, Tensor]:  # noqa: A002 - the schema's
    import torch

    _check_absmax(absmax, offset, map)
    return (
        torch.empty_like(absmax, dtype=torch.uint8, memory_format=torch.contiguous_format),
        _empty(four_bit.blocks(absmax.numel(), four_bit.SCALES_A_BLOCK), "float32", absmax),
    )


# --- the kernels ----------------------------------------------------------------


def _bind(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    codes = dtype_codes(library, ("float32", "float16", "bfloat16"))
    types = {name: library.constants[f"KW_{name.upper()}"] for name in four_bit.VALUES}
    place, call = placement(library, key), library.functions["kw_call"]
    pack, function = library.packer("kw_quantize_4bit")

    def run(x: Tensor, blocksize: int, quant_type: str) -> tuple[Tensor, Tensor]:
        packed, absmax = _fake(x, blocksize, quant_type)
        refuse_freed(_NAME, x=x)
        code, count = codes.get(x.dtype), x.numel()
        if code is None:  # float64
            x, code = x.float(), codes[absmax.dtype]
        if count:
            x = x.contiguous()
            device, stream = place(x)
            to, of = (packed.data_ptr(), absmax.data_ptr()), (x.data_ptr(), count)
            status = call(pack(function, device, stream, *to, *of, blocksize, types[quant_type], code))
            if status:
                library.fail("kw_quantize_4bit", status)
        return packed, absmax

    return run


def _bind_absmax(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    place, call = placement(library, key), library.functions["kw_call"]
    pack, function = library.packer("kw_quantize_4bit_absmax")

    def run(absmax: Tensor, offset: Tensor, map: Tensor) -> tuple[Tensor, Tensor]:  # noqa: A002 - the schema's
        codes, absmax2 = _fake_absmax(absmax, offset, map)
        refuse_freed(_NAME, absmax=absmax, offset=offset, map=map)
        count = codes.numel()
        if count:
            absmax, table = absmax.contiguous(), map.contiguous()
            device, stream = place(absmax)
            to, of = (codes.data_ptr(), absmax2.data_ptr()), (absmax.data_ptr(), offset.data_ptr(), table.data_ptr())
            status = call(pack(function, device, stream, *to, *of, count))
            if status:
                library.fail("kw_quantize_4bit_absmax", status)
        return codes, absmax2

    return run


OP = Op(
    name=_NAME,
    doc="block-wise quantization to NF4 or FP4, and of the scales to 8 bits",
    function=quantize_4bit,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, int blocksize, str quant_type) -> (Tensor, Tensor)",
            bind=_bind,
            fake=_fake,
            reference=reference.quantize,
            terms=reference.terms_of_quantize,
        ),
        Overload(
            name="absmax",
            schema="(Tensor absmax, Tensor offset, Tensor map) -> (Tensor, Tensor)",
            bind=_bind_absmax,
            fake=_fake_absmax,
            reference=reference.quantize_absmax,
            terms=reference.terms_of_quantize_absmax,
            fixed=("absmax", "offset", "map"),
        ),
    ),
    cases=cases.QUANTIZE,
    benchmarks=cases.QUANTIZE_BENCHMARKS,
    make=cases.make_quantize,
    bytes=cases.quantize_traffic,
    flops=cases.quantize_flops,
    tolerances=cases.EXACT,
    selfcheck=selfcheck.quantize,
)
