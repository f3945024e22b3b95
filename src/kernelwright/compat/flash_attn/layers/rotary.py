# SPDX-License-Identifier: MIT
"""flash_attn.layers.rotary: rotary embeddings of [batch, seqlen, heads, d], or of sequences one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.compat._covered import refuse_others
from kernelwright.compat.flash_attn import _checks as checks
from kernelwright.errors import InvalidArgument
from kernelwright.ops.attention.rope import rope

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "RotaryEmbedding",
    "apply_rotary_emb",
    "apply_rotary_emb_func",
    "apply_rotary_emb_kv_",
    "apply_rotary_emb_qkv_",
]

__getattr__ = refuse_others(__name__, __all__, "For the rest install flash-attn itself")


def _positions_of_sequences(total: int, cu_seqlens: Tensor, seqlen_offsets: int | Tensor) -> Tensor:
    """[1, total]: how far each row is behind the first of its sequence, and that one's place."""
    rows = torch.arange(total, dtype=torch.int32, device=cu_seqlens.device)
    which = torch.searchsorted(cu_seqlens[1:].contiguous(), rows, right=True)
    which = which.clamp(max=cu_seqlens.shape[0] - 2)  # rows behind the last sequence
    offsets = seqlen_offsets if isinstance(seqlen_offsets, int) else seqlen_offsets[which]
    return (rows - cu_seqlens[which] + offsets).unsqueeze(0)


def _turn(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, inplace: bool, positions: Tensor | None) -> Tensor:
    options: Any = {"positions": positions, "rotary_dim": 2 * cos.shape[-1], "seq_dim": -3, "interleaved": interleaved}
    found: Tensor = rope(x, cos, sin, **options)
    return x.copy_(found) if inplace else found


def apply_rotary_emb(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    interleaved: bool = False,
    inplace: bool = False,
    seqlen_offsets: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """Turns the first `2 * cos.shape[-1]` elements of each row of x.

    x               [batch, seqlen, heads, d]; with cu_seqlens [total rows, heads, d], sequences one after the other
    cos, sin        [places, rotary_dim / 2], of x's dtype or float32
    interleaved     pairs are neighbours, else halves
    inplace         x itself is changed, and returned
    seqlen_offsets  the place of each sequence's first row: a number, or an integer tensor [batch]
    cu_seqlens      where sequences begin, and the end of the last one; max_seqlen is not needed

    Differentiable in x.
    """
    name, dims = "apply_rotary_emb", 4 if cu_seqlens is None else 3
    if x.dim() != dims or cos.dim() != 2:
        raise InvalidArgument(
            f"{name}: x has shape {tuple(x.shape)} and cos {tuple(cos.shape)}, but must have {dims} and 2 dimensions"
        )
    if (cu_seqlens is None) != (max_seqlen is None):
        raise InvalidArgument(f"{name}: cu_seqlens and max_seqlen are given together, or neither")
    if cu_seqlens is not None:
        positions = _positions_of_sequences(x.shape[0], cu_seqlens, seqlen_offsets)
        found = _turn(x.unsqueeze(0), cos, sin, interleaved, inplace, positions)
        return x if inplace else found.squeeze(0)
    if isinstance(seqlen_offsets, int):
        if seqlen_offsets < 0:
            raise InvalidArgument(f"{name}: seqlen_offsets is {seqlen_offsets}, but must not be negative")
        return _turn(x, cos[seqlen_offsets:], sin[seqlen_offsets:], interleaved, inplace, None)
    return _turn(x, cos, sin, interleaved, inplace, seqlen_offsets)


apply_rotary_emb_func = apply_rotary_emb


def _q_and_k(function: str, qkv: Tensor, num_heads_q: int | None) -> tuple[Tensor, Tensor]:
    if qkv.dim() == 5 and qkv.shape[2] == 3 and num_heads_q is None:
        q, k, _ = qkv.unbind(2)
        return q, k
    if qkv.dim() != 4 or num_heads_q is None:
        raise InvalidArgument(
            f"{function}: qkv has shape {tuple(qkv.shape)}, but must be [batch, seqlen, 3, heads, d], or with "
            "num_heads_q [batch, seqlen, num_heads_q + 2 * num_heads_k, d]"
        )
    heads = (qkv.shape[2] - num_heads_q) // 2
    return qkv[:, :, :num_heads_q], qkv[:, :, num_heads_q : num_heads_q + heads]


def apply_rotary_emb_qkv_(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    cos_k: Tensor | None = None,
    sin_k: Tensor | None = None,
    interleaved: bool = False,
    seqlen_offsets: int | Tensor = 0,
    num_heads_q: int | None = None,
) -> Tensor:
    """Turns q and k of [batch, seqlen, 3, heads, d] in place, or of [batch, seqlen, heads of q, k and v, d] with
    num_heads_q; k by cos_k and sin_k where they are given. Returns qkv."""
    q, k = _q_and_k("apply_rotary_emb_qkv_", qkv, num_heads_q)
    apply_rotary_emb(q, cos, sin, interleaved, True, seqlen_offsets)
    cos_k, sin_k = cos if cos_k is None else cos_k, sin if sin_k is None else sin_k
    apply_rotary_emb(k, cos_k, sin_k, interleaved, True, seqlen_offsets)
    return qkv


def apply_rotary_emb_kv_(
    kv: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, seqlen_offsets: int | Tensor = 0
) -> Tensor:
    """Turns k of [batch, seqlen, 2, heads, d] in place. Returns kv."""
    if kv.dim() != 5 or kv.shape[2] != 2:
        raise InvalidArgument(
            f"apply_rotary_emb_kv_: kv has shape {tuple(kv.shape)}, but must be [batch, seqlen, 2, heads, d]"
        )
    apply_rotary_emb(kv[:, :, 0], cos, sin, interleaved, True, seqlen_offsets)
    return kv


class RotaryEmbedding(torch.nn.Module):
    """Rotary embeddings of packed q, k and v by places from 0 on; what it computes cos and sin of is kept."""

    def __init__(
        self,
        dim: int,
        base: float = 10000.0,
        interleaved: bool = False,
        scale_base: float | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        if scale_base is not None:
            checks.refuse("RotaryEmbedding", "scale_base", scale_base, "pass None, rotary embeddings without xPos")
        self.dim, self.base, self.interleaved = dim, float(base), interleaved
        powers = torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim
        self.register_buffer("inv_freq", self.base**-powers, persistent=False)
        self._tables: tuple[Tensor, Tensor] | None = None

    def _tables_for(self, places: int, like: Tensor) -> tuple[Tensor, Tensor]:
        known = self._tables
        kept = known is not None and (known[0].dtype, known[0].device) == (like.dtype, like.device)
        if known is None or not kept or known[0].shape[0] < places:
            # In float32 whatever the module was converted to: angles of far places need its digits.
            powers = torch.arange(0, self.dim, 2, dtype=torch.float32, device=like.device) / self.dim
            angles = torch.arange(places, dtype=torch.float32, device=like.device).unsqueeze(1) * self.base**-powers
            known = self._tables = angles.cos().to(like.dtype), angles.sin().to(like.dtype)
        return known

    def forward(
        self,
        qkv: Tensor,
        kv: Tensor | None = None,
        seqlen_offset: int | Tensor = 0,
        max_seqlen: int | None = None,
        num_heads_q: int | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """qkv as in apply_rotary_emb_qkv_, or q [batch, seqlen, heads, d] beside kv; they are changed in place. Where
        seqlen_offset is a tensor, max_seqlen says how far places go."""
        rows = qkv.shape[1] if kv is None else max(qkv.shape[1], kv.shape[1])
        if isinstance(seqlen_offset, int):
            rows += seqlen_offset
        elif max_seqlen is None:
            raise InvalidArgument("RotaryEmbedding: seqlen_offset is a tensor, so max_seqlen must say how far it goes")
        tables = self._tables_for(max(rows, max_seqlen or 0), qkv)
        options: Any = {"interleaved": self.interleaved, "seqlen_offsets": seqlen_offset}
        if kv is None:
            return apply_rotary_emb_qkv_(qkv, *tables, num_heads_q=num_heads_q, **options)
        return apply_rotary_emb(qkv, *tables, inplace=True, **options), apply_rotary_emb_kv_(kv, *tables, **options)
