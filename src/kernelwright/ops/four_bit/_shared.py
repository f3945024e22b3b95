# SPDX-License-Identifier: MIT
"""What the 4-bit operators share: the two lists of values, sizes, quantized scales, and what is refused."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelwright.errors import InvalidArgument
from kernelwright.ops._tensors import require_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

BLOCKSIZES = tuple(32 << i for i in range(8))
SCALES_A_BLOCK = 256  # of the second quantization
MOST_PARTS = 63  # of a weight, each with an offset
FLOATS = ("float32", "float16", "bfloat16", "float64")

# By code: the quantiles of a normal distribution, and a sign, two bits of exponent, one of mantissa.
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
_FP4 = (0.0, 0.0052083334885537624, 0.6666666865348816, 1.0, 0.3333333432674408, 0.5, 0.1666666716337204, 0.25)
VALUES: dict[str, tuple[float, ...]] = {"nf4": _NF4, "fp4": (*_FP4, 0.0, *(-v for v in _FP4[1:]))}

# How many of these a scaled value exceeds; for FP4 its size, which gives a place in FP4_CODES. As bitsandbytes' CUDA
# library has them: not all are the middle between two values, to the bit.
BOUNDS: dict[str, tuple[float, ...]] = {
    "nf4": (
        -0.8480964303016663, -0.6106328964233398, -0.459995269775390625, -0.33967941999435425, -0.23460739850997925,
        -0.13791173696517944, -0.045525018125772476, 0.03979014977812767, 0.12025525420904160, 0.20352125167846680,
        0.29201376438140869, 0.38931253552436829, 0.50166338682174683, 0.64278692007064819, 0.86147838830947876,
    ),
    "fp4": (
        0.0026041700039058924, 0.0859375, 0.2083333283662796, 0.2916666567325592, 0.4166666865348816,
        0.5833330154418945, 0.8333333134651184,
    ),
}  # fmt: skip
FP4_CODES = (0, 1, 6, 7, 4, 5, 2, 3)
CODE_OF_0 = {"nf4": 7, "fp4": 0}


class QuantizedAbsmax(NamedTuple):
    """Scales that are quantized themselves: scale of block b = map[codes[b]] * absmax2[b // 256] + offset.

    A weight that was joined of several has an offset for each of its equal parts.
    """

    codes: Tensor
    absmax2: Tensor
    map: Tensor
    offset: Tensor


def dynamic_map(device: Any = None) -> Tensor:
    """The 256 values of the scales' codes, from -1 to 1: bitsandbytes' signed dynamic type, equal to the bit."""
    import torch

    here = {"dtype": torch.float32, "device": "cpu"}  # whatever the defaults are
    found = [torch.tensor([0.0, 1.0], **here)]
    for exponent in range(7):  # from 10^-6 on; each time twice as many
        edges = torch.linspace(0.1, 1, 2**exponent + 1, **here)
        middles = 10.0 ** (exponent - 6) * ((edges[:-1] + edges[1:]) / 2.0)
        found += [middles, -middles]
    return torch.cat(found).sort().values.to(device)


def packed_bytes(count: Any) -> Any:
    return (count + 1) // 2


def blocks(count: Any, blocksize: int) -> Any:
    return (count + blocksize - 1) // blocksize


def elements(shape: Sequence[Any]) -> Any:
    return math.prod(shape)


# --- what is refused ------------------------------------------------------------


@cache
def dtypes(names: tuple[str, ...]) -> tuple[Any, ...]:
    import torch

    return tuple(getattr(torch, name) for name in names)


def check_blocksize(op: str, blocksize: int) -> None:
    if blocksize not in BLOCKSIZES:
        raise InvalidArgument(f"{op}: blocksize is {blocksize}, but must be one of {', '.join(map(str, BLOCKSIZES))}")


def check_quant_type(op: str, quant_type: str) -> None:
    if not isinstance(quant_type, str) or quant_type not in VALUES:
        raise InvalidArgument(f"{op}: quant_type is {quant_type!r}, but must be 'nf4' or 'fp4'")


def check_held(
    op: str, name: str, tensor: Tensor, dtype: str, count: Any, because: Callable[[], str], like: Tensor
) -> None:
    """Of this type, on the device of `like` (the operator's first tensor), `count` elements in any shape."""
    allowed = dtypes((dtype,))
    if tensor.dtype == allowed[0] and tensor.device == like.device and tensor.numel() == count:
        return
    require_dtype(op, name, tensor, allowed)
    if tensor.device != like.device:
        raise InvalidArgument(
            f"{op}: {name} is on {tensor.device}, but the first tensor is on {like.device}; move one of them (.to())"
        )
    raise InvalidArgument(f"{op}: {name} has {tensor.numel()} elements, but must have {count}: {because()}")


def check_weight(
    op: str,
    packed: Tensor,
    scales: Sequence[Tensor],
    shape: Sequence[Any],
    blocksize: int,
    quant_type: str,
    like: Tensor,
    rows: Any = 0,
) -> None:
    """The packed tensor and its scales: absmax alone, or the four of QuantizedAbsmax.

    `rows`: what parts that have an offset each have a whole number of; 1 where there is one offset.
    """
    check_blocksize(op, blocksize)
    check_quant_type(op, quant_type)
    count = elements(shape)
    number = blocks(count, blocksize)
    second = blocks(number, SCALES_A_BLOCK)

    def shown() -> str:
        return "x".join(map(str, shape)) or "1"

    def each() -> str:
        return f"one for each block of {blocksize} of {shown()} elements"

    def each_second() -> str:
        return f"one for each {SCALES_A_BLOCK} of {number} scales"

    check_held(op, "packed", packed, "uint8", packed_bytes(count), lambda: f"{shown()} elements, two in a byte", like)
    if len(scales) == 1:
        check_held(op, "absmax", scales[0], "float32", number, each, like)
        return
    codes, absmax2, table, offset = scales
    check_held(op, "codes", codes, "uint8", number, each, like)
    check_held(op, "absmax2", absmax2, "float32", second, each_second, like)
    check_held(op, "map", table, "float32", 256, lambda: "a value for each code of a scale", like)
    parts = offset.numel() if may_have_parts(offset.numel(), number, rows) else 1
    check_held(op, "offset", offset, "float32", parts, _why_one_offset, like)


def _why_one_offset() -> str:
    return f"what was taken from all scales, or for each of at most {MOST_PARTS} equal parts what was from its own"


def may_have_parts(parts: int, number: Any, rows: Any) -> bool:
    """Whether a weight of so many blocks and rows may have so many offsets, each for an equal part of it."""
    fits = 1 < parts <= MOST_PARTS and number < 2**31
    return fits and rows % parts == 0 and number % (parts * SCALES_A_BLOCK) == 0


def split_scales(op: str, absmax: Any) -> tuple[Any, ...]:
    """What a public function was given for absmax, as arguments of an overload."""
    if not isinstance(absmax, tuple):
        return (absmax,)
    if len(absmax) != len(QuantizedAbsmax._fields):
        raise InvalidArgument(
            f"{op}: absmax is a tuple of {len(absmax)}, but must be a tensor, or the four of a QuantizedAbsmax: "
            f"{', '.join(QuantizedAbsmax._fields)}"
        )
    return absmax


def named_scales(scales: Sequence[Tensor]) -> dict[str, Tensor]:
    """The scales of a weight, by the names that operators have for them."""
    return dict(zip(("absmax",) if len(scales) == 1 else QuantizedAbsmax._fields, scales, strict=True))


# --- what the C functions take ----------------------------------------------------


def weight_arguments(at: Callable[[Tensor], int], packed: Tensor, scales: Sequence[Tensor]) -> list[int]:
    """packed, absmax, codes, absmax2, map and offset, as the C functions of tensors have them."""
    if len(scales) == 1:
        return [at(packed), at(scales[0]), 0, 0, 0, 0]
    return [at(packed), 0, *[at(scale) for scale in scales]]
