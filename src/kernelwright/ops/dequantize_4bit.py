# SPDX-License-Identifier: MIT
"""The way back from 4-bit codes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops import _four_bit as four_bit
from kernelwright.ops import _four_bit_cases as cases
from kernelwright.ops import _four_bit_reference as reference
from kernelwright.ops import _four_bit_selfcheck as selfcheck
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from kernelwright._library import Library

_NAME = "dequantize_4bit"


def dequantize_4bit(
    packed: Tensor,
    absmax: Tensor | four_bit.QuantizedAbsmax,
    shape: Sequence[int],
    blocksize: int = 64,
    quant_type: str = "nf4",
    dtype: Any = None,
) -> Tensor:
    """What quantize_4bit was given, but for rounding: each code's value times its block's scale.

    packed      uint8, two elements a byte, in any shape (bitsandbytes' is [n, 1])
    absmax      the scales, float32, or a QuantizedAbsmax
    shape       of the result
    blocksize, quant_type    as it was quantized
    dtype       of the result: float32 (None), float16, bfloat16; or float64, computed in plain torch

    Not differentiable.

    >>> packed, absmax = kernelwright.quantize_4bit(weight)
    >>> again = kernelwright.dequantize_4bit(packed, absmax, weight.shape, dtype=torch.bfloat16)
    """
    import torch

    op = torch.ops.kernelwright.dequantize_4bit
    scales = four_bit.split_scales(_NAME, absmax)
    function = op.default if len(scales) == 1 else op.nested
    result: Tensor = function(packed, *scales, shape, blocksize, quant_type, dtype or torch.float32)
    return result


def _check(
    packed: Tensor, scales: Sequence[Tensor], shape: Sequence[Any], blocksize: int, quant_type: str, dtype: Any
) -> None:
    if dtype not in (allowed := four_bit.dtypes(four_bit.FLOATS)):
        raise InvalidArgument(f"{_NAME}: dtype is {dtype}, but must be {' or '.join(map(str, allowed))}")
    if any(size < 0 for size in shape):
        raise InvalidArgument(f"{_NAME}: shape is {tuple(shape)}, but no size may be negative")
    four_bit.check_weight(_NAME, packed, scales, shape, blocksize, quant_type, packed)


def _fake_any(
    packed: Tensor, scales: Sequence[Tensor], shape: Sequence[Any], blocksize: int, quant_type: str, dtype: Any
) -> Tensor:
    _check(packed, scales, shape, blocksize, quant_type, dtype)
    return packed.new_empty(tuple(shape), dtype=dtype)


def _fake(packed: Tensor, absmax: Tensor, shape: Sequence[Any], blocksize: int, quant_type: str, dtype: Any) -> Tensor:
    return _fake_any(packed, (absmax,), shape, blocksize, quant_type, dtype)


def _fake_nested(
    packed: Tensor,
    codes: Tensor,
    absmax2: Tensor,
    map: Tensor,  # noqa: A002 - the schema's
    offset: Tensor,
    shape: Sequence[Any],
    blocksize: int,
    quant_type: str,
    dtype: Any,
) -> Tensor:
    return _fake_any(packed, (codes, absmax2, map, offset), shape, blocksize, quant_type, dtype)


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    numbers = dtype_codes(library, ("float32", "float16", "bfloat16"))
    types = {name: library.constants[f"KW_{name.upper()}"] for name in four_bit.VALUES}
    place, call = placement(library, key), library.functions["kw_call"]
    (pack, function), find = library.packer("kw_dequantize_4bit"), four_bit.addresses(key)

    @lru_cache(maxsize=1024)
    def plan(shape: tuple[int, ...], blocksize: int, quant_type: str, dtype: Any, scales: int) -> Any:
        """What follows from these alone, in a tuple; None: there is something to refuse, or torch computes it."""
        if dtype not in numbers or blocksize not in four_bit.BLOCKSIZES or quant_type not in types or min((0, *shape)):
            return None
        count = four_bit.elements(shape)
        return count, four_bit.kinds(count, blocksize, scales), types[quant_type], numbers[dtype]

    def run(packed: Tensor, *rest: Any) -> Tensor:
        *scales, shape, blocksize, quant_type, dtype = rest
        found = plan(tuple(shape), blocksize, quant_type, dtype, len(scales))
        held = found and find(packed, (packed, *scales), found[1])
        if held is None:
            _check(packed, scales, shape, blocksize, quant_type, dtype)
            if dtype not in numbers:  # float64
                return reference.weight(packed, scales, shape, blocksize, quant_type, dtype)
            return run(packed.contiguous(), *(t.contiguous() for t in scales), shape, blocksize, quant_type, dtype)
        count, _, kind, number = found
        y = packed.new_empty(*shape, dtype=dtype) if shape else packed.new_empty((), dtype=dtype)
        if count:
            device, stream = place(packed)
            held = four_bit.with_scales(held)
            status = call(pack(function, device, stream, y.data_ptr(), *held, count, blocksize, kind, number))
            if status:
                library.fail("kw_dequantize_4bit", status)
        return y

    return run


OP = Op(
    name=_NAME,
    doc="NF4 or FP4 codes back to floats, with plain or 8-bit scales",
    function=dequantize_4bit,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor packed, Tensor absmax, SymInt[] shape, int blocksize, str quant_type, ScalarType dtype)"
            " -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=reference.dequantize,
            fixed=("packed", "absmax"),
        ),
        Overload(
            name="nested",
            schema="(Tensor packed, Tensor codes, Tensor absmax2, Tensor map, Tensor offset, SymInt[] shape,"
            " int blocksize, str quant_type, ScalarType dtype) -> Tensor",
            bind=_bind,
            fake=_fake_nested,
            reference=reference.dequantize_nested,
            fixed=("packed", "codes", "absmax2", "map", "offset"),
        ),
    ),
    cases=cases.DEQUANTIZE,
    benchmarks=cases.DEQUANTIZE_BENCHMARKS,
    make=cases.make_dequantize,
    bytes=cases.dequantize_traffic,
    flops=cases.dequantize_flops,
    tolerances=cases.EXACT,
    selfcheck=selfcheck.dequantize,
)
