# SPDX-License-Identifier: MIT
"""Rope in plain torch, for any device and float64 too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.ops.attention._reference import wide_type

if TYPE_CHECKING:
    from torch import Tensor


def _pairs(x: Tensor, count: int, interleaved: bool) -> tuple[Tensor, Tensor, Tensor]:
    """First and second elements of so many pairs, and what is behind them."""
    first, rest = x[..., : 2 * count], x[..., 2 * count :]
    if interleaved:
        return first[..., 0::2], first[..., 1::2], rest
    return first[..., :count], first[..., count:], rest


def _row(first: Tensor, second: Tensor, rest: Tensor, interleaved: bool) -> Tensor:
    import torch

    pairs = torch.stack([first, second], -1).flatten(-2) if interleaved else torch.cat([first, second], -1)
    return torch.cat([pairs, rest], -1)


def turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """`x`, whose first elements are pairs, one for each column of cos and sin."""
    a, b, rest = _pairs(x, cos.shape[-1], interleaved)
    return _row(a * cos - b * sin, b * cos + a * sin, rest, interleaved)


def angles(x: Tensor, table: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool) -> Tensor:
    """The table's numbers for the pairs of each row of `x`, with a dimension of heads."""
    import torch

    rows = x.shape[2]
    if table.shape[-1] == rotary_dim:
        table = table[..., 0::2] if interleaved else table[..., : rotary_dim // 2]
    if table.dim() == 2:
        if positions is None:
            table = table[:rows].unsqueeze(0)
        else:
            places = positions.long()
            if places.dim() == 1:
                places = places.unsqueeze(1) + torch.arange(rows, device=x.device)
            table = table[places.clamp(0, table.shape[0] - 1)]
    return table.unsqueeze(1).to(wide_type(x))


def rope(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool, inverse: bool
) -> Tensor:
    import torch

    c, s = (angles(x, table, positions, rotary_dim, interleaved) for table in (cos, sin))
    found = turned(x.to(c.dtype), c, -s if inverse else s, interleaved)
    return torch.empty_like(x).copy_(found)


def pair(
    x: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool,
    inverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    options = cos, sin, positions, rotary_dim, interleaved, inverse
    return rope(x, *options), rope(k, *options)


def _terms(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool) -> Tensor:
    c, s = (angles(x, table, positions, rotary_dim, interleaved).abs() for table in (cos, sin))
    a, b, rest = _pairs(x.abs(), c.shape[-1], interleaved)
    return _row(a * c + b * s, b * c + a * s, 0 * rest, interleaved)


def terms(x: Tensor, *options: object) -> tuple[Tensor]:
    return (_terms(x, *options[:-1]),)  # type: ignore[arg-type]


def terms_of_pair(x: Tensor, k: Tensor, *options: object) -> tuple[Tensor, Tensor]:
    return *terms(x, *options), *terms(k, *options)


def x_(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool, inverse: bool
) -> None:
    x.copy_(rope(x, cos, sin, positions, rotary_dim, interleaved, inverse))


def pair_(
    x: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, rotary_dim: int, interleaved: bool,
    inverse: bool,
) -> None:  # fmt: skip
    found = pair(x, k, cos, sin, positions, rotary_dim, interleaved, inverse)
    for tensor, turned_one in zip((x, k), found, strict=True):
        tensor.copy_(turned_one)
