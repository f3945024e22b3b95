# SPDX-License-Identifier: MIT
"""attention_decode in plain torch, sequence by sequence, for any device and float64 too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._tensors import settled
from kernelwright.ops.attention import _reference as reference
from kernelwright.ops.attention import _rope_reference as rope

if TYPE_CHECKING:
    from torch import Tensor

Maybe = Any  # Tensor or None, in signatures of a dozen of them


def turned(x: Tensor, cos: Tensor, sin: Tensor, places: Tensor, interleaved: bool) -> Tensor:
    """Rows of [..., rows, d] after rope, in float32 or float64; one place a row."""
    wide = reference.wide_type(x)
    places = places.clamp(max=cos.shape[0] - 1)
    return rope.turned(x.to(wide), cos[places].to(wide), sin[places].to(wide), interleaved)


def _rows(cache: Tensor, batch: int, count: int, table: Maybe, index: Maybe) -> Any:
    """What to index a cache by for the first rows of a batch: (batches or pages, rows)."""
    import torch

    rows = torch.arange(count, device=cache.device)
    if table is None:
        return torch.full_like(rows, batch if index is None else int(index[batch])), rows
    return table[batch].long()[rows // cache.shape[2]], rows % cache.shape[2]


def lengths_of(q: Tensor, k: Tensor, lengths: Maybe, table: Maybe, new_rows: int) -> list[int]:
    """Rows of each cache, without those that are appended."""
    room = k.shape[2] * (1 if table is None else table.shape[1])
    if lengths is None:
        return [room] * q.shape[0]
    return [min(max(int(length), 0), room - new_rows) for length in lengths]


def decode(
    q: Tensor, k: Tensor, v: Tensor, lengths: Maybe, block_table: Maybe, batch_index: Maybe, sinks: Maybe,
    alibi_slopes: Maybe, scale: float, causal: bool, window_left: int, window_right: int, softcap: float,
    splits: int,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:  # fmt: skip
    places = lengths, block_table, batch_index
    return _attend(q, k, v, places, 0, sinks, alibi_slopes, (scale, causal, window_left, window_right, softcap))


def _attend(
    q: Tensor, k: Tensor, v: Tensor, places: tuple[Maybe, Maybe, Maybe], new_rows: int, sinks: Maybe,
    alibi_slopes: Maybe, options: reference.Options,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """With rows that were appended behind the lengths."""
    import torch

    lengths, block_table, batch_index = places
    outs, lses = [], []
    for batch, length in enumerate(lengths_of(q, k, lengths, block_table, new_rows)):
        at = _rows(k, batch, length + new_rows, block_table, batch_index)
        keys, values = (t[at[0], :, at[1]].transpose(0, 1).unsqueeze(0) for t in (k, v))
        slopes = alibi_slopes if alibi_slopes is None or alibi_slopes.dim() == 1 else alibi_slopes[batch : batch + 1]
        out, lse = reference.wide_attention(q[batch : batch + 1], keys, values, None, None, sinks, slopes, options)
        outs.append(out)
        lses.append(lse)
    wide = reference.wide_type(q)
    out = torch.cat(outs) if outs else q.new_empty((0, *q.shape[1:3], v.shape[3]), dtype=wide)
    lse = torch.cat(lses) if lses else q.new_empty((0, *q.shape[1:3]), dtype=wide)
    return settled(out, q.dtype), lse.contiguous()


def append(
    q: Tensor, k: Tensor, v: Tensor, k_new: Tensor, v_new: Tensor, lengths: Tensor, block_table: Maybe,
    batch_index: Maybe, cos: Maybe, sin: Maybe, sinks: Maybe, alibi_slopes: Maybe, scale: float, causal: bool,
    window_left: int, window_right: int, softcap: float, interleaved: bool, splits: int,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:  # fmt: skip
    import torch

    new_rows, queries = k_new.shape[2], q.shape[2]
    rows = torch.arange(new_rows, device=q.device)
    moves = causal or window_left >= 0 or window_right >= 0
    wide_q = q
    if cos is not None:
        wide_q = q.to(reference.wide_type(q)).clone()
    for batch, length in enumerate(lengths_of(q, k, lengths, block_table, new_rows)):
        at = _rows(k, batch, length + new_rows, block_table, batch_index)
        at = at[0][length:], at[1][length:]
        fresh = k_new[batch]
        if cos is not None:
            fresh = turned(fresh, cos, sin, length + rows, interleaved).to(k.dtype)
            turns = length + torch.arange(queries, device=q.device) * int(moves)
            wide_q[batch] = turned(q[batch], cos, sin, turns, interleaved)
        k[at[0], :, at[1]] = fresh.transpose(0, 1)
        v[at[0], :, at[1]] = v_new[batch].transpose(0, 1)
    options, places = (scale, causal, window_left, window_right, softcap), (lengths, block_table, batch_index)
    out, lse = _attend(wide_q, k, v, places, new_rows, sinks, alibi_slopes, options)
    return settled(out, q.dtype), lse


def _terms(q: Tensor, d_v: int, largest: Any, lse: Tensor) -> tuple[Tensor, Tensor]:
    """Results are means of v, and lse errs as scores do."""
    return q.new_ones((*q.shape[:3], d_v)) * largest, 1.0 + lse.abs()


def _largest(*tensors: Tensor) -> Any:
    """Of what is a number: what is none makes the results that it reaches none, and says nothing of the others."""
    return max((t.abs().nan_to_num(nan=0.0, posinf=0.0).max() for t in tensors if t.numel()), default=0.0)


def terms(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return _terms(q, v.shape[3], _largest(v), decode(q, k, v, *rest)[1])


def terms_of_append(q: Tensor, k: Tensor, v: Tensor, k_new: Tensor, v_new: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    lse = append(q, k.clone(), v.clone(), k_new, v_new, *rest)[1]
    out, size = _terms(q, v.shape[3], _largest(v, v_new), lse)
    # Rows that were turned are rounded to their type before they are multiplied, and lse is of float32.
    return out, size if rest[3] is None else 1000.0 * size
