# SPDX-License-Identifier: MIT
"""How torch's FlopCounterMode counts attention: all products of queries with keys, whether seen or masked, as it counts
its own; a backward pass computes the scores again. Lengths that have no values are their bounds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any


def _products(scores: int, d: int, d_v: int, *, backward: bool) -> int:
    """Of so many scores, queries times keys over all heads."""
    forward = d + d_v
    return 2 * scores * (2 * forward + d if backward else forward)


def attention(*shapes: Any, out_shape: Any, **_: Any) -> int:
    """Forward has two results, backward four and an argument before q."""
    backward = len(out_shape) > 2
    (batch, heads, queries, d), k, v = shapes[1:4] if backward else shapes[:3]
    return _products(batch * heads * queries * k[2], d, v[3], backward=backward)


def _values(tensor: Any) -> list[int] | None:
    """None where there are none, as of tensors on meta, or a subclass knows."""
    import torch

    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type != "meta"
    return tensor.tolist() if plain else None


def _pairs(starts_q: Any, starts_k: Any, max_q: int, max_k: int) -> int:
    """Queries times keys of all sequences."""
    of_q, of_k = _values(starts_q), _values(starts_k)
    if of_q is None or of_k is None:
        return (starts_q.shape[0] - 1) * max_q * max_k
    lengths = [[end - start for start, end in pairwise(of)] for of in (of_q, of_k)]
    return sum(queries * keys for queries, keys in zip(*lengths, strict=True))


def varlen(*given: Any, out_val: Any, **_: Any) -> int:
    backward = len(out_val) > 2
    q, k, v = given[1:4] if backward else given[:3]
    starts_q, starts_k, _, _, max_q, max_k = given[6:12] if backward else given[3:9]
    del k
    return _products(_pairs(starts_q, starts_k, max_q, max_k) * q.shape[1], q.shape[2], v.shape[2], backward=backward)


def decode(*given: Any, **_: Any) -> int:
    """With new rows there are two more tensors, before the lengths."""
    q, k, v = given[:3]
    appends = hasattr(given[4], "dim") and given[4].dim() == 4
    lengths, table = given[5:7] if appends else given[3:5]
    batch, heads, queries, d = q.shape
    rows = k.shape[2] * (1 if table is None else table.shape[1])
    known = None if lengths is None else _values(lengths)
    keys = batch * rows if known is None else sum(known) + (batch * given[3].shape[2] if appends else 0)
    return _products(heads * queries * keys, d, v.shape[3], backward=False)
