# SPDX-License-Identifier: MIT
"""Ternary weights as others keep them: transformers' bytes, and GGUF's I2_S."""

from __future__ import annotations

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.ops.ternary import _codes

__all__ = [
    "pack_i2_s",
    "pack_ternary",
    "pack_transformers",
    "unpack_i2_s",
    "unpack_ternary",
    "unpack_transformers",
]

_I2_S, _RUN, _TAIL = 128, 32, 32  # codes of a group, how far apart a byte's codes are, bytes behind the codes


def pack_ternary(values: torch.Tensor) -> torch.Tensor:
    """A matrix of -1, 0 and 1, of any type, as matmul_ternary takes it: uint8, two bits each, in their own order."""
    if values.dim() != 2:
        raise InvalidArgument(
            f"pack_ternary: values has shape {tuple(values.shape)}, but must have two dimensions, [n, k]"
        )
    if values.numel() and not bool(((values == -1) | (values == 0) | (values == 1)).all()):
        raise InvalidArgument("pack_ternary: values has others than -1, 0 and 1; quantize_ternary makes such of floats")
    return _codes.pack(values)


def unpack_ternary(packed: torch.Tensor, n: int, k: int) -> torch.Tensor:
    """The matrix [n, k] of -1, 0 and 1 that was packed, in int8."""
    _codes.check_packed("unpack_ternary", packed, n, k, packed)
    return _codes.unpack(packed, n, k)


def unpack_transformers(stored: torch.Tensor, n: int) -> torch.Tensor:
    """transformers' uint8 [n / 4, k], whose byte has rows r, r + n / 4, … in its bits from the lowest, as
    matmul_ternary takes it."""
    if stored.dtype != torch.uint8 or stored.dim() != 2 or stored.shape[0] != (n + 3) // 4:
        raise InvalidArgument(
            f"unpack_transformers: the weight is {stored.dtype}, shape {tuple(stored.shape)}, but must be torch.uint8 "
            f"of {(n + 3) // 4} rows for {n} outputs"
        )
    values = torch.cat([stored >> shift & 3 for shift in (0, 2, 4, 6)])[:n]
    return _codes.pack(values.to(torch.int8) - 1)


def pack_transformers(packed: torch.Tensor, n: int, k: int) -> torch.Tensor:
    """The way back: every byte as it was."""
    _codes.check_packed("pack_transformers", packed, n, k, packed)
    codes = torch.nn.functional.pad((_codes.unpack(packed, n, k) + 1).to(torch.uint8), (0, 0, 0, -n % 4))
    parts = codes.view(4, -1, k)
    return parts[0] | parts[1] << 2 | parts[2] << 4 | parts[3] << 6


def unpack_i2_s(stored: torch.Tensor, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`(packed, scale)` of a tensor of GGUF's type I2_S, as bitnet.cpp writes it on x86: of each 128 weights byte j has
    weights j, j + 32, j + 64 and j + 96 from its highest bits down, -1, 0 and 1 as 0, 1 and 2; behind all of them the
    scale, a float32, which multiplies, in 32 bytes."""
    flat = stored.contiguous().view(torch.uint8).reshape(-1)
    if k % _I2_S != 0 or flat.numel() != n * k // 4 + _TAIL:
        raise InvalidArgument(
            f"unpack_i2_s: {flat.numel()} bytes for {n} x {k} weights, but there must be n * k / 4 + {_TAIL}, and k "
            f"must be a multiple of {_I2_S}"
        )
    runs = flat[: n * k // 4].view(-1, _RUN)
    values = torch.stack([runs >> shift & 3 for shift in (6, 4, 2, 0)], 1).reshape(n, k)
    scale = flat[n * k // 4 :][:4].clone().view(torch.float32)
    return _codes.pack(values.to(torch.int8) - 1), scale


def pack_i2_s(packed: torch.Tensor, scale: torch.Tensor, n: int, k: int) -> torch.Tensor:
    """The way back: uint8, n * k / 4 + 32 bytes, zeros behind the scale."""
    _codes.check_packed("pack_i2_s", packed, n, k, packed)
    if k % _I2_S != 0 or scale.numel() != 1:
        raise InvalidArgument(
            f"pack_i2_s: k is {k} and there are {scale.numel()} scales, but I2_S has rows of whole groups of {_I2_S}, "
            "and one scale for all"
        )
    groups = (_codes.unpack(packed, n, k) + 1).to(torch.uint8).view(-1, 4, _RUN)
    codes = groups[:, 0] << 6 | groups[:, 1] << 4 | groups[:, 2] << 2 | groups[:, 3]
    tail = torch.zeros(_TAIL, dtype=torch.uint8, device=packed.device)
    tail[:4] = scale.detach().float().reshape(1).contiguous().view(torch.uint8)
    return torch.cat([codes.reshape(-1), tail])
