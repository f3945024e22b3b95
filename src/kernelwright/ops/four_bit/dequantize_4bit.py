# SPDX-License-Identifier: MIT
"""The way back from 4-bit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._handles import caller, handles, refused
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed
from kernelwright.ops.four_bit import _cases as cases
from kernelwright.ops.four_bit import _reference as reference
from kernelwright.ops.four_bit import _selfcheck as selfcheck
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from kernelwright._library import Library

_NAME, _FUNCTION = "dequantize_4bit", "kw_dequantize_4bit_tensors"


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

    op = calls.dequantize_4bit
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


def _launcher(library: Library, key: str) -> Callable[..., Tensor | None]:
    """launch(packed, *scales, shape, blocksize, quant_type, dtype): the weight; None where there is something to refuse
    or to copy."""
    numbers = dtype_codes(library, ("float32", "float16", "bfloat16"))
    types = {name: library.constants[f"KW_{name.upper()}"] for name in four_bit.VALUES}
    (call, pack, refuse), place = caller(library, _FUNCTION), placement(library, key)
    at: Callable[[Tensor], int] | None = None

    def launch(packed: Tensor, *rest: Any) -> Tensor | None:
        nonlocal at
        at = at or handles(library)
        *scales, shape, blocksize, quant_type, dtype = rest
        kind = types.get(quant_type)
        if dtype not in numbers or kind is None or blocksize not in four_bit.BLOCKSIZES or min((0, *shape)):
            return None
        if packed.numel() != four_bit.packed_bytes(four_bit.elements(shape)):  # for which there may be no memory
            return None
        y = packed.new_empty(*shape, dtype=dtype) if shape else packed.new_empty((), dtype=dtype)
        weight = four_bit.weight_arguments(at, packed, scales)
        _, stream = place(packed)
        status = call(pack(stream, at(y), *weight, blocksize, kind))
        if status:
            refuse(status)
            return None
        return y

    return launch


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    launch, double = _launcher(library, key), four_bit.dtypes(("float64",))[0]

    def run(packed: Tensor, *rest: Any) -> Tensor:
        found = launch(packed, *rest)
        if found is not None:
            return found
        *scales, shape, blocksize, quant_type, dtype = rest
        _check(packed, scales, shape, blocksize, quant_type, dtype)
        refuse_freed(_NAME, packed=packed, **four_bit.named_scales(scales))
        if dtype == double:
            return reference.weight(packed, scales, shape, blocksize, quant_type, dtype)
        weight = [tensor.contiguous() for tensor in (packed, *scales)]
        found = launch(*weight, shape, blocksize, quant_type, dtype)
        return found if found is not None else refused(library, _FUNCTION)

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
