# SPDX-License-Identifier: MIT
"""Functions with the names and the arguments of torch.nn.functional. Importing this file imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from kernelwright import ops
from kernelwright.ops.attention.attention import attention

if TYPE_CHECKING:
    from torch import Tensor

ops.register()

__all__ = ["scaled_dot_product_attention"]

_WIDEST = 256  # elements of a head that kernels take
_TYPES = {
    "cpu": (torch.float32, torch.float16, torch.bfloat16),
    "cuda": (torch.float16, torch.bfloat16),
}


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention by kernelwright's kernels, and by torch's where there are none.

    Torch's own computes calls with dropout, with a mask that gradients are wanted of, with tensors of other types or
    of other than four dimensions, heads of more than 256 elements, and all calls on GPUs older than Ampere. As with
    torch's, `is_causal` counts places from the first query and key: kernelwright.attention(causal=True) from the last.

    >>> out = kernelwright.scaled_dot_product_attention(q, k, v, is_causal=True)
    """
    if torch.is_autocast_enabled(query.device.type):
        query, key, value = autocast(query, key, value)
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(query.dtype)
    if serves(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa):
        return run(query, key, value, attn_mask, is_causal, scale)
    more: dict[str, Any] = {"enable_gqa": True} if enable_gqa else {}  # torch 2.4 has no such argument
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **more
    )


def autocast(*tensors: Tensor) -> list[Tensor]:
    """In the type that autocast computes products in, but for float64, as torch does."""
    device = tensors[0].device.type
    dtype = torch.get_autocast_dtype(device)
    return [t if t.dtype == torch.float64 or not t.is_floating_point() else t.to(dtype) for t in tensors]


@torch.compiler.assume_constant_result
def _has_kernels(index: int | None) -> bool:
    return torch.cuda.get_device_capability(index) >= (8, 0)


def serves(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, causal: bool, grouped: bool
) -> bool:
    """Whether kernels take such a call of torch's function; what torch refuses is left to it too."""
    device = query.device
    if dropout > 0 or (causal and mask is not None) or query.dtype not in _TYPES.get(device.type, ()):
        return False
    if not all(_plain(tensor, query) for tensor in (query, key, value)):
        return False
    fits = _fit(query, key, value, grouped) and (mask is None or _takes(mask, query))
    return fits and (device.type != "cuda" or _has_kernels(device.index))


def _plain(tensor: Tensor, query: Tensor) -> bool:
    if tensor.is_nested or tensor.dim() != 4 or tensor.dtype != query.dtype or tensor.device != query.device:
        return False
    return 0 < tensor.shape[3] <= _WIDEST and not is_traceable_wrapper_subclass(tensor)


def _fit(query: Tensor, key: Tensor, value: Tensor, grouped: bool) -> bool:
    batch, heads, _, d = query.shape
    kv_heads, keys = key.shape[1:3]
    if key.shape != (batch, kv_heads, keys, d) or value.shape[:3] != (batch, kv_heads, keys):
        return False
    return heads == kv_heads or (grouped and kv_heads > 0 and heads % kv_heads == 0)


def _takes(mask: Tensor, query: Tensor) -> bool:
    """Tensors of more than four dimensions, and those that learn, are torch's to deal with."""
    if mask.dtype not in (torch.bool, query.dtype) or mask.dim() > 4 or mask.device != query.device:
        return False
    return not (mask.requires_grad and torch.is_grad_enabled()) and not is_traceable_wrapper_subclass(mask)


def run(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """A call that kernels take."""
    window = (-1, -1)
    if causal:
        queries, keys = query.shape[2], key.shape[2]
        if queries < keys:  # counted from the first, no query sees the rest
            key, value = key[:, :, :queries], value[:, :, :queries]
        elif queries > keys:
            causal, window = False, (-1, queries - keys)
    out: Any = attention(query, key, value, mask=mask, scale=scale, causal=causal, window=window)
    found: Tensor = out
    return found
