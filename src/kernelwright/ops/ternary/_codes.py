# SPDX-License-Identifier: MIT
"""Ternary codes: where csrc/ops/ternary/geometry.h has them, their sizes, their scales; in plain torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._tensors import require_dtype, settled

if TYPE_CHECKING:
    from torch import Tensor

ROWS, DEPTH, BLOCK = 16, 128, 512
DEEPEST = 1 << 24
FLOATS = ("float32", "float16", "bfloat16", "float64")
_LEAST_SCALE = 1e-5


def dtypes(names: tuple[str, ...]) -> tuple[Any, ...]:
    import torch

    return tuple(getattr(torch, name) for name in names)


def packed_shape(n: Any, k: Any) -> tuple[Any, Any]:
    return (n + ROWS - 1) // ROWS, (k + DEPTH - 1) // DEPTH * BLOCK


def check_sizes(op: str, n: Any, k: Any) -> None:
    if n < 0 or k < 0 or k > DEEPEST:
        raise InvalidArgument(f"{op}: the weight is {n} x {k}, but must have 0 or more rows of 0 to {DEEPEST} elements")


def check_packed(op: str, packed: Tensor, n: Any, k: Any, like: Tensor) -> None:
    check_sizes(op, n, k)
    require_dtype(op, "packed", packed, dtypes(("uint8",)))
    check_place(op, "packed", packed, like)
    rows, bytes_a_row = packed_shape(n, k)
    if packed.numel() != rows * bytes_a_row:
        raise InvalidArgument(
            f"{op}: packed has {packed.numel()} bytes, but a weight of {n} x {k} has {rows} x {bytes_a_row} "
            "(quantize_ternary and pack_ternary make them)"
        )


def check_place(op: str, name: str, tensor: Tensor, like: Tensor) -> None:
    if tensor.device != like.device:
        raise InvalidArgument(
            f"{op}: {name} is on {tensor.device}, but the first tensor is on {like.device}; move one of them (.to())"
        )


def check_scale(op: str, scale: Tensor, n: Any, like: Tensor) -> None:
    require_dtype(op, "scale", scale, dtypes(("float32",)))
    check_place(op, "scale", scale, like)
    if scale.numel() not in (1, n):
        raise InvalidArgument(f"{op}: scale has {scale.numel()} elements, but must have 1, or one for each of {n} rows")


def aligned(tensor: Tensor) -> Tensor:
    """Without gaps, on 16 bytes."""
    found = tensor.contiguous()
    return found if found.data_ptr() % 16 == 0 else found.clone()


def pack(values: Tensor) -> Tensor:
    """Codes of a matrix of -1, 0 and 1 (and 2, which code 3 stands for)."""
    import torch

    n, k = values.shape
    groups, blocks = (n + ROWS - 1) // ROWS, (k + DEPTH - 1) // DEPTH
    codes = torch.ones((groups * ROWS, blocks * DEPTH), dtype=torch.uint8, device=values.device)
    codes[:n, :k] = (values + 1).to(torch.uint8)
    # group, half of its rows, row, block, step, half of it, place, byte
    apart = codes.view(groups, 2, 8, blocks, 4, 2, 4, 4)
    order = apart.permute(0, 3, 2, 6, 5, 1, 7, 4)  # group, block, row, place, half, half, byte, step
    packed = order[..., 0] | order[..., 1] << 2 | order[..., 2] << 4 | order[..., 3] << 6
    return packed.reshape(groups, blocks * BLOCK)


def unpack(packed: Tensor, n: int, k: int) -> Tensor:
    """The matrix that the codes are of, in int8."""
    import torch

    groups, blocks = (n + ROWS - 1) // ROWS, (k + DEPTH - 1) // DEPTH
    bytes_of = packed.to(torch.uint8).reshape(groups, blocks, 8, 4, 2, 2, 4)
    codes = torch.stack([bytes_of >> shift & 3 for shift in (0, 2, 4, 6)], -1)
    order = codes.permute(0, 5, 2, 1, 7, 4, 3, 6)
    return order.reshape(groups * ROWS, blocks * DEPTH)[:n, :k].to(torch.int8) - 1


def quantize(weight: Tensor, per_row: bool) -> tuple[Tensor, Tensor]:
    """Computed in float32, as kernels do: a code is what its rounding makes it."""
    import torch

    single = weight.float()
    n, k = weight.shape
    if per_row:
        mean = single.abs().mean(1) if k else single.new_zeros(n)
    else:
        mean = single.abs().double().mean().float().reshape(1) if n * k else single.new_zeros(1)
    scale = mean.clamp(min=_LEAST_SCALE)
    once = 1.0 / scale
    scaled = single * (once.unsqueeze(1) if per_row else once)
    values = (scaled > 0.5).to(torch.int8) - (scaled < -0.5).to(torch.int8)
    return pack(values), scale


def dequantize(packed: Tensor, scale: Tensor, n: int, k: int, dtype: Any) -> Tensor:
    import torch

    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return settled(unpack(packed, n, k).to(wide) * scale.to(wide).reshape(-1, 1), dtype)
