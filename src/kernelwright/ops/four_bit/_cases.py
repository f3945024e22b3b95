# SPDX-License-Identifier: MIT
"""How the 4-bit operators are tested and timed: cases, tolerances, unavoidable work.

A case's shape is that of the tensor to quantize, of the one that comes back, or of x. Its options are the block size,
the type, and for a product the rows of the weight and whether there is a bias.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case, Tolerance
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DTYPES = ("float32", "float16", "bfloat16")

# Bit for bit; what the rounding of a reciprocal may decide is said by Overload.terms.
EXACT = {name: Tolerance(0.0, 0.0, 1.0) for name in (*DTYPES, "float64", "uint8")}
# Half a unit in the last place of the result; of the terms what sums in float32 lose, and a rounded weight where there
# are so many rows that torch multiplies.
SUMS = {
    "float64": Tolerance(1e-12, 1e-14, 1e-14),
    "float32": Tolerance(1e-6, 1e-12, 2e-6),
    "float16": Tolerance(2.0**-11 * 1.02, 1e-7, 2.0**-11 * 1.02),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 1e-12, 2.0**-9 * 1.02),
}

_COLS = (1, 2, 3, 5, 7, 8, 15, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 257, 511, 1000, 1024, 4096, 4099)
_SHAPES = (
    *((3, cols) for cols in _COLS),
    (64,),
    (0, 64),
    (4, 0),
    (2, 0, 16),
    (2, 3, 40),
    (2, 1, 3, 1, 24),
    (1, 8193),
    (2, 16384),
    (257, 96),
)
_ROWS = (
    (1, 64),
    (2, 96),
    (4, 129),
    (5, 300),
    (8, 512),
    (9, 128),
    (17, 257),
    (24, 128),
    (33, 128),
    (70, 96),
    (20, 1088),
    (40, 576),
    (72, 320),
    (257, 64),
    (40, 160),
    (100, 64),
    (170, 96),
    (200, 64),
    (67, 1120),
    *((2, 384), (4, 640), (1, 640), (13, 896), (3, 1152), (1, 1664)),  # what a GPU's kernels for few rows take
    (11, 192),  # and those by warpgroups
    (2, 256),  # with another block size in bfloat16 than above
    *((3, 12352), (3, 12480)),  # deep enough for pieces of k
)
_WIDTHS = (5, 1, 8, 17, 2, 33)  # of a weight


def _options(number: int) -> dict[str, Any]:
    """Each block size and each type in turn, so that over the shapes all meet all."""
    kinds = tuple(four_bit.VALUES)
    return {
        "blocksize": four_bit.BLOCKSIZES[number % len(four_bit.BLOCKSIZES)],
        "quant_type": kinds[number // len(four_bit.BLOCKSIZES) % len(kinds)],
    }


def _product_options(number: int) -> dict[str, Any]:
    return {"n": _WIDTHS[number % len(_WIDTHS)], **_options(number), "bias": number % 3 != 0}


def _cases(
    overload: str, shapes: Iterable[tuple[int, ...]], dtypes: Iterable[str], options: Callable[[int], dict[str, Any]]
) -> Iterator[Case]:
    """Other options for each type too; of those the many block sizes of one row are the last."""
    for number, shape in enumerate((*shapes, *[(1, 4101)] * 16)):
        for place, dtype in enumerate(dtypes):
            yield Case(overload, shape, dtype, options(number + 5 * place))


def _distinct(cases: Iterable[Case]) -> tuple[Case, ...]:
    return tuple({str(case): case for case in cases}.values())


QUANTIZE = _distinct(
    (
        *_cases("default", _SHAPES, DTYPES, _options),
        *(Case("absmax", shape, "float32") for shape in _SHAPES),
    )
)
DEQUANTIZE = _distinct(
    (
        *(case for name in ("default", "nested") for case in _cases(name, _SHAPES, DTYPES, _options)),
        *(Case("nested", (384, 64), name, {"blocksize": 32, "quant_type": "nf4", "parts": 3}) for name in DTYPES),
    )
)
# Of weights that were joined of several: x, the weight's rows, the block size, the parts. So many rows of x as a GPU
# has kernels for; parts of four rows, of which a warp has several, and of many; blocks of 32, such as no gemv takes.
_PARTS = (
    *(((m, 4096), 20, 64, 5) for m in (1, 2, 3, 7, 13, 20, 100)),
    ((1, 384), 768, 128, 3),
    ((5, 128), 3840, 64, 15),
    ((2, 640), 256, 32, 4),
    ((40, 64), 1024, 64, 2),
    ((3, 72), 2048, 32, 2),
)
_WITH_PARTS = tuple(
    Case("nested", shape, dtype, {"n": n, "blocksize": size, "quant_type": kind, "bias": bias, "parts": parts})
    for number, (shape, n, size, parts) in enumerate(_PARTS)
    for dtype in DTYPES
    for kind, bias in (("fp4" if number % 4 == 3 else "nf4", number % 2 == 0),)
)
MATMUL = _distinct(
    (
        *(c for name in ("default", "nested") for c in _cases(name, (*_SHAPES, *_ROWS), DTYPES, _product_options)),
        *_WITH_PARTS,
    )
)

_USUAL = {"blocksize": 64, "quant_type": "nf4"}
_LAYERS = ((28672, 8192), (8192, 28672), (14336, 4096), (8192, 8192), (4096, 4096))  # n, k
QUANTIZE_BENCHMARKS = tuple(
    Case("default", shape, dtype, _USUAL)
    for shape in _LAYERS
    for dtype in (DTYPES if shape == _LAYERS[0] else ("bfloat16",))
)
DEQUANTIZE_BENCHMARKS = tuple(
    Case(name, shape, dtype, _USUAL)
    for name in ("default", "nested")
    for shape in _LAYERS
    for dtype in (DTYPES if shape == _LAYERS[0] else ("bfloat16",))
)
# Of models that people run, none a multiple of much: n, k.
_ODD_LAYERS = (
    (11008, 4096), (4096, 11008), (13824, 5120), (5120, 13824), (27648, 5120), (5120, 6912), (18944, 3584),
    (3584, 18944),
)  # fmt: skip
_ROWS_OF_X = (1, 2, 4, 8, 16, 32, 64, 256, 2048)
MATMUL_BENCHMARKS = tuple(
    Case(name, (m, k), "bfloat16", {"n": n, **_USUAL, "bias": False})
    for name, layers, rows in (
        ("default", _LAYERS, _ROWS_OF_X),
        ("nested", _LAYERS, (1, 4, 16, 64)),
        ("default", _ODD_LAYERS, (1, 3, 8, 12, 24, 48, 100, 512, 4096)),
    )
    for n, k in layers
    for m in rows
)


# --- arguments ------------------------------------------------------------------


def _floats(shape: tuple[int, ...], device: Any, generator: Any) -> Any:
    import torch

    return torch.rand(shape, generator=generator, device=device)


def _bytes(count: int, device: Any, generator: Any) -> Any:
    import torch

    return torch.randint(0, 256, (count,), generator=generator, device=device, dtype=torch.uint8)


def held(count: int, case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    """A packed tensor of any codes and its scales, plain or quantized."""
    packed = _bytes(four_bit.packed_bytes(count), device, generator)
    number = four_bit.blocks(count, case.options["blocksize"])
    if case.overload != "nested":
        return packed, 0.1 + _floats((number,), device, generator)
    second = _floats((four_bit.blocks(number, four_bit.SCALES_A_BLOCK),), device, generator)
    table = four_bit.dynamic_map(device)
    parts = case.options.get("parts", 1)
    offset = 1.5 + _floats(() if parts == 1 else (parts,), device, generator)
    return packed, _bytes(number, device, generator), second, table, offset


def make_quantize(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    if case.overload == "absmax":
        return _floats(case.shape, device, generator), _floats((), device, generator), four_bit.dynamic_map(device)
    x = torch.randn(case.shape, generator=generator, device=device).to(getattr(torch, case.dtype))
    return x, case.options["blocksize"], case.options["quant_type"]


def make_dequantize(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    weight = held(math.prod(case.shape), case, device, generator)
    rest = case.options["blocksize"], case.options["quant_type"], getattr(torch, case.dtype)
    return (*weight, list(case.shape), *rest)


def make_matmul(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    n, dtype = case.options["n"], getattr(torch, case.dtype)
    weight = held(n * case.shape[-1], case, device, generator)
    x = torch.randn(case.shape, generator=generator, device=device).to(dtype)
    bias = torch.randn(n, generator=generator, device=device).to(dtype) if case.options["bias"] else None
    return (x, *weight, bias, n, case.options["blocksize"], case.options["quant_type"])


# --- unavoidable work -------------------------------------------------------------


def held_bytes(count: int, case: Case) -> int:
    number = four_bit.blocks(count, case.options["blocksize"])
    if case.overload != "nested":
        return four_bit.packed_bytes(count) + 4 * number
    others = four_bit.blocks(number, four_bit.SCALES_A_BLOCK) + 256 + case.options.get("parts", 1)
    return four_bit.packed_bytes(count) + number + 4 * others


def quantize_traffic(case: Case) -> int:
    count = math.prod(case.shape)
    if case.overload == "absmax":
        return 5 * count + 4 * four_bit.blocks(count, four_bit.SCALES_A_BLOCK) + 4 * 257
    number = four_bit.blocks(count, case.options["blocksize"])
    return count * SIZES[case.dtype] + four_bit.packed_bytes(count) + 4 * number


def quantize_flops(case: Case) -> int:
    """A comparison for the scale, a product, and as many comparisons as a code has bits."""
    return math.prod(case.shape) * (10 if case.overload == "absmax" else 6)


def dequantize_traffic(case: Case) -> int:
    count = math.prod(case.shape)
    return held_bytes(count, case) + count * SIZES[case.dtype]


def dequantize_flops(case: Case) -> int:
    return math.prod(case.shape)


def matmul_traffic(case: Case) -> int:
    *rows, k = case.shape
    m, n = math.prod(rows), case.options["n"]
    return held_bytes(n * k, case) + (m * k + m * n + n * case.options["bias"]) * SIZES[case.dtype]


def matmul_flops(case: Case) -> int:
    return 2 * math.prod(case.shape) * case.options["n"]


# What one writes in torch where memory is no matter (Op.eager): the same layer with its weight in x's own type.


def _dense(*arguments: Any) -> Callable[[], Any]:
    from torch.nn import functional

    from kernelwright.ops.four_bit import _reference as reference

    x, packed, *scales, bias, n, blocksize, quant_type = arguments
    matrix = reference.weight(packed, scales, (n, x.shape[-1]), blocksize, quant_type, x.dtype)
    return lambda: functional.linear(x, matrix, bias)


EAGER: dict[str, Callable[..., Callable[[], Any]]] = {"default": _dense, "nested": _dense}
