# SPDX-License-Identifier: MIT
"""flash_attn.bert_padding: between padded batches and sequences that lie one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernelwright.compat._covered import refuse_others

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["index_first_axis", "index_put_first_axis", "pad_input", "unpad_input"]

__getattr__ = refuse_others(__name__, __all__, "For the rest install flash-attn itself")


def index_first_axis(input: Tensor, indices: Tensor) -> Tensor:  # noqa: A002 - flash-attn's name
    """These rows of the first dimension, in this order. Differentiable."""
    return input.index_select(0, indices)


def index_put_first_axis(values: Tensor, indices: Tensor, first_axis_dim: int) -> Tensor:
    """Zeros with `first_axis_dim` rows, of which these are `values`. Differentiable."""
    rows = values.new_zeros((first_axis_dim, *values.shape[1:]))
    return rows.index_copy(0, indices, values)


def unpad_input(
    hidden_states: Tensor, attention_mask: Tensor, unused_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """The rows of [batch, seqlen, ...] that a mask [batch, seqlen] has, one after the other.

    Returns them, their places in the flattened batch, where each sequence begins (cu_seqlens, int32, one more than
    there are), the longest, and how many of each are used. `unused_mask` adds rows that are kept without being used.
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(-1, dtype=torch.int32)
    used = attention_mask.sum(-1, dtype=torch.int32)
    indices = kept.flatten().nonzero().flatten()
    starts = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    most = int(lengths.max()) if lengths.numel() else 0
    return index_first_axis(hidden_states.flatten(0, 1), indices), indices, starts, most, used


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    """Back to [batch, seqlen, ...], zeros where there was padding."""
    return index_put_first_axis(hidden_states, indices, batch * seqlen).unflatten(0, (batch, seqlen))
