# SPDX-License-Identifier: MIT
"""flash_attn.flash_attn_interface: flash-attn's functions, their arguments in its order, its layouts.

Tensors are [batch, seqlen, heads, d], or [total, heads, d] of sequences one after the other. With return_attn_probs
functions return (out, softmax_lse, None): the third is flash-attn's record of dropout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright import ops
from kernelwright.compat._covered import refuse_others
from kernelwright.compat.flash_attn import _checks as checks
from kernelwright.compat.flash_attn._kvcache import flash_attn_with_kvcache
from kernelwright.ops.attention.attention import attention
from kernelwright.ops.attention.attention_varlen import attention_varlen

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]

ops.register()

__getattr__ = refuse_others(__name__, __all__, "For the rest install flash-attn itself")


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Attention of [batch, seqlen, heads, d]; k and v may have fewer heads, which divide q's."""
    name = "flash_attn_func"
    checks.check(name, dropout_p, q, k, v)
    out, lse = attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), alibi_slopes=alibi_slopes, scale=softmax_scale,
        causal=causal, window=checks.window_of(name, window_size), softcap=softcap, deterministic=deterministic,
        return_lse=True,
    )  # fmt: skip
    out = out.transpose(1, 2)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """The same of kv [batch, seqlen, 2, heads, d]."""
    k, v = checks.packed("flash_attn_kvpacked_func", "kv", kv, 2, 5)
    return flash_attn_func(
        q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs
    )


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """The same of qkv [batch, seqlen, 3, heads, d]."""
    q, k, v = checks.packed("flash_attn_qkvpacked_func", "qkv", qkv, 3, 5)
    return flash_attn_func(
        q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs
    )


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Any:
    """Attention of sequences one after the other, [total, heads, d]; cu_seqlens say where each begins."""
    name = "flash_attn_varlen_func"
    checks.check(name, dropout_p, q, k, v)
    if block_table is not None:
        checks.refuse(name, "block_table", "...", "flash_attn_with_kvcache takes pages")
    out, lse = attention_varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k), alibi_slopes=alibi_slopes,
        scale=softmax_scale, causal=causal, window=checks.window_of(name, window_size), softcap=softcap,
        deterministic=deterministic, return_lse=True,
    )  # fmt: skip
    return (out, lse, None) if return_attn_probs else out


def flash_attn_varlen_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """The same of kv [total, 2, heads, d]."""
    k, v = checks.packed("flash_attn_varlen_kvpacked_func", "kv", kv, 2, 4)
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, causal, window_size,
        softcap, alibi_slopes, deterministic, return_attn_probs,
    )  # fmt: skip


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """The same of qkv [total, 3, heads, d]."""
    q, k, v = checks.packed("flash_attn_varlen_qkvpacked_func", "qkv", qkv, 3, 4)
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p, softmax_scale, causal, window_size, softcap,
        alibi_slopes, deterministic, return_attn_probs,
    )  # fmt: skip
