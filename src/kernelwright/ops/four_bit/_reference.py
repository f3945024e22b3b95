# SPDX-License-Identifier: MIT
"""The 4-bit operators in plain torch. Codes and scales may be held in float64: it has them exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._tensors import settled, without_autocast
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

_TINY = 2.0**-126  # below, a GPU's products are 0
_ULPS = 2.0**-22  # of a bound: two units in its last place, or four where they are small


def _constants(values: Sequence[float], device: Any) -> Tensor:
    """A CUDA graph can record that they are filled in, not that they come from the CPU."""
    import torch

    dtype = torch.float32 if isinstance(values[0], float) else torch.int64
    if device.type == "cpu":
        return torch.tensor(values, dtype=dtype, device=device)
    return torch.cat([torch.full((1,), value, dtype=dtype, device=device) for value in values])


def _in_blocks(values: Tensor, blocksize: int) -> Tensor:
    """Rows of one block each; the last is filled up with zeros."""
    import torch

    flat = values.reshape(-1).float()
    return torch.nn.functional.pad(flat, (0, -flat.numel() % blocksize)).view(-1, blocksize)


def _scaled(in_blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Each block's scale, and its elements times the reciprocal of that."""
    absmax = in_blocks.abs().amax(1) if in_blocks.numel() else in_blocks.new_empty(0)
    return absmax, in_blocks * (1.0 / absmax).unsqueeze(1)


def _codes(scaled: Tensor, quant_type: str) -> Tensor:
    """NaN has code 0."""
    import torch

    bounds = _constants(four_bit.BOUNDS[quant_type], scaled.device)
    if quant_type == "nf4":
        found = torch.bucketize(scaled, bounds)
    else:
        codes = _constants(four_bit.FP4_CODES, scaled.device)
        found = codes[torch.bucketize(scaled.abs(), bounds)] + 8 * (scaled <= -_TINY)
    return torch.where(scaled.isnan(), 0, found)


def quantize(x: Tensor, blocksize: int, quant_type: str) -> tuple[Tensor, Tensor]:
    import torch

    absmax, scaled = _scaled(_in_blocks(x, blocksize))
    codes = _codes(scaled.view(-1)[: x.numel()], quant_type)
    codes = torch.nn.functional.pad(codes, (0, x.numel() % 2), value=four_bit.CODE_OF_0[quant_type])
    return (codes[::2] * 16 + codes[1::2]).to(torch.uint8), absmax


def quantize_absmax(absmax: Tensor, offset: Tensor, map: Tensor) -> tuple[Tensor, Tensor]:  # noqa: A002 - the schema's
    import torch

    table = map.reshape(-1).float()
    moved = absmax.reshape(-1).float() - offset.reshape(()).float()
    absmax2, scaled = _scaled(_in_blocks(moved, four_bit.SCALES_A_BLOCK))
    scaled = scaled.view(-1)[: absmax.numel()]
    middles = (table[:-1] + table[1:]) * 0.5
    place = torch.bucketize(scaled, middles)
    tie = scaled == torch.nn.functional.pad(middles, (0, 1), value=torch.inf)[place]
    place = torch.where(scaled.isnan(), 0, place + (tie & (place % 2 == 1)))
    return settled(place.view(absmax.shape), torch.uint8), absmax2


def plain_scales(scales: Sequence[Tensor]) -> Tensor:
    """One float32 a block, of scales that may be quantized."""
    if len(scales) == 1:
        return scales[0].reshape(-1).float()
    codes, absmax2, table, offset = (t.reshape(-1) for t in scales)
    each = absmax2.float().repeat_interleave(four_bit.SCALES_A_BLOCK)[: codes.numel()]
    if offset.numel() > 1:  # of parts
        offset = offset.repeat_interleave(codes.numel() // offset.numel())
    return table.float()[codes.long()] * each + offset.float()


def weight(
    packed: Tensor, scales: Sequence[Tensor], shape: Sequence[int], blocksize: int, quant_type: str, dtype: Any
) -> Tensor:
    """In float32, then rounded; where `dtype` is float64 the products are exact."""
    import torch

    wide = torch.float64 if dtype == torch.float64 else torch.float32
    count = four_bit.elements(shape)
    pairs = packed.reshape(-1).long()
    codes = torch.stack((pairs >> 4, pairs & 15), 1).view(-1)[:count]
    values = _constants(four_bit.VALUES[quant_type], packed.device)[codes].to(wide)
    each = plain_scales(scales).to(wide).repeat_interleave(blocksize)[:count]
    return settled((values * each).view(tuple(shape)), dtype)


def dequantize(
    packed: Tensor, absmax: Tensor, shape: Sequence[int], blocksize: int, quant_type: str, dtype: Any
) -> Tensor:
    return weight(packed, (absmax,), shape, blocksize, quant_type, dtype)


def dequantize_nested(
    packed: Tensor,
    codes: Tensor,
    absmax2: Tensor,
    map: Tensor,  # noqa: A002 - the schema's
    offset: Tensor,
    shape: Sequence[int],
    blocksize: int,
    quant_type: str,
    dtype: Any,
) -> Tensor:
    return weight(packed, (codes, absmax2, map, offset), shape, blocksize, quant_type, dtype)


def product(
    x: Tensor, packed: Tensor, scales: Sequence[Tensor], bias: Tensor | None, n: int, blocksize: int, quant_type: str
) -> Tensor:
    import torch

    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    matrix = weight(packed, scales, (n, x.shape[-1]), blocksize, quant_type, wide)
    with without_autocast(x.device):
        y = torch.matmul(x.to(wide), matrix.t())
    return settled(y if bias is None else y + bias.to(wide), x.dtype)


def matmul(
    x: Tensor, packed: Tensor, absmax: Tensor, bias: Tensor | None, n: int, blocksize: int, quant_type: str
) -> Tensor:
    return product(x, packed, (absmax,), bias, n, blocksize, quant_type)


def matmul_nested(
    x: Tensor,
    packed: Tensor,
    codes: Tensor,
    absmax2: Tensor,
    map: Tensor,  # noqa: A002 - the schema's
    offset: Tensor,
    bias: Tensor | None,
    n: int,
    blocksize: int,
    quant_type: str,
) -> Tensor:
    return product(x, packed, (codes, absmax2, map, offset), bias, n, blocksize, quant_type)


# --- how large the terms are that the results are sums of, or which codes may be others (Overload.terms) -----------


def _unclear(absmax: Tensor) -> Tensor:
    """Blocks whose codes say nothing: nothing can be scaled by the reciprocal of such a scale."""
    return ~((absmax >= _TINY) & (absmax <= 1 / _TINY)).unsqueeze(1)


def _near(scaled: Tensor, bounds: Tensor) -> Tensor:
    """Whether one bound is so near that the rounding of a reciprocal decides."""
    near = scaled.isnan()
    for bound in bounds.tolist():
        near = near | ((scaled - bound).abs() <= _ULPS * abs(bound))
    return near


def terms_of_quantize(x: Tensor, blocksize: int, quant_type: str) -> tuple[Tensor, Tensor]:
    """A byte may be any other where one of its codes may."""
    import torch

    absmax, scaled = _scaled(_in_blocks(x, blocksize))
    bounds = _constants(four_bit.BOUNDS[quant_type], x.device)
    near = _near(scaled, bounds) if quant_type == "nf4" else _near(scaled.abs(), bounds) | (scaled.abs() <= 2 * _TINY)
    near = (near | _unclear(absmax)).view(-1)[: x.numel()]
    near = torch.nn.functional.pad(near, (0, x.numel() % 2)).view(-1, 2).any(1)
    return 255.0 * near, torch.zeros_like(absmax)


def terms_of_quantize_absmax(absmax: Tensor, offset: Tensor, map: Tensor) -> tuple[Tensor, Tensor]:  # noqa: A002
    """Any code may be another where the map is not in order."""
    moved = absmax.reshape(-1).float() - offset.reshape(()).float()
    absmax2, scaled = _scaled(_in_blocks(moved, four_bit.SCALES_A_BLOCK))
    table = map.reshape(-1).float()
    near = _near(scaled, (table[:-1] + table[1:]) * 0.5) | _unclear(absmax2) | ~(table[:-1] <= table[1:]).all()
    return (255.0 * near.view(-1)[: absmax.numel()]).view(absmax.shape), absmax2.new_zeros(absmax2.shape)


def terms_of_matmul(*arguments: Any) -> tuple[Tensor]:
    x, packed, *scales, bias, n, blocksize, quant_type = arguments
    matrix = weight(packed, scales, (n, x.shape[-1]), blocksize, quant_type, x.dtype)
    sizes = x.abs() @ matrix.abs().t()
    return (sizes if bias is None else sizes + bias.abs(),)
