# SPDX-License-Identifier: MIT
"""flash_attn_with_kvcache: attention of new rows with a cache that takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.compat.flash_attn import _checks as checks
from kernelwright.ops.attention.attention_decode import attention_decode

if TYPE_CHECKING:
    from torch import Tensor

_NAME = "flash_attn_with_kvcache"


def _lengths(cache_seqlens: int | Tensor | None, q: Tensor) -> Tensor | None:
    if isinstance(cache_seqlens, int):
        return torch.full((q.shape[0],), cache_seqlens, dtype=torch.int32, device=q.device)
    return cache_seqlens


def _by_heads(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.transpose(1, 2)


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """q [batch, seqlen, heads, d] with caches [batch, rows, kv_heads, d], or pages [pages, rows of a page, kv_heads, d]
    with block_table. k and v [batch, new rows, kv_heads, d] are written to the caches at cache_seqlens first, k after
    rope by rotary_cos and rotary_sin [max_positions, rotary_dim / 2]. The caches change; nothing is differentiable."""
    checks.check(_NAME, 0.0, q, k_cache, v_cache)
    if cache_leftpad is not None:
        checks.refuse(_NAME, "cache_leftpad", "...", "let sequences begin at the first row of their caches")
    if rotary_cos is not None and k is None:
        checks.refuse(_NAME, "rotary_cos", "... without k", "turn q before the call")
    out, lse = attention_decode(
        q.transpose(1, 2), k_cache.transpose(1, 2), v_cache.transpose(1, 2), _lengths(cache_seqlens, q),
        k_new=_by_heads(k), v_new=_by_heads(v), block_table=block_table, batch_index=cache_batch_idx, cos=rotary_cos,
        sin=rotary_sin, interleaved=rotary_interleaved, alibi_slopes=alibi_slopes, scale=softmax_scale, causal=causal,
        window=checks.window_of(_NAME, window_size), softcap=softcap, splits=num_splits, return_lse=True,
    )  # fmt: skip
    out = out.transpose(1, 2).contiguous()
    return (out, lse) if return_softmax_lse else out
