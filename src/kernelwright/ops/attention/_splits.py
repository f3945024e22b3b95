# SPDX-License-Identifier: MIT
"""How calls of attention and rope are split, for torch.vmap and DTensor. Arguments are the schemas', with shapes for
tensors; of shapes that the operators refuse there may be no split."""

from __future__ import annotations

from typing import Any

from kernelwright.ops._record import SUM, Split

Shape = tuple[int, ...]


def _broadcast(name: str, shape: Shape | None, dim: int, size: int) -> dict[str, int]:
    """Of what is broadcast to four dimensions: split where it has an entry for each."""
    at = -1 if shape is None else dim - 4 + len(shape)
    return {name: at} if shape is not None and at >= 0 and shape[at] == size else {}


def _of_batches(q: Shape, mask: Shape | None, bias: Shape | None, slopes: Shape | None) -> dict[str, int]:
    more = {**_broadcast("mask", mask, 0, q[0]), **_broadcast("bias", bias, 0, q[0])}
    return more if slopes is None or len(slopes) < 2 else {**more, "alibi_slopes": 0}


def _of_heads(sinks: Shape | None, slopes: Shape | None) -> dict[str, int]:
    more = {} if sinks is None else {"sinks": 0}
    return more if slopes is None else {**more, "alibi_slopes": len(slopes) - 1}


def _every(dim: int, *names: str) -> dict[str, int]:
    return dict.fromkeys(names, dim)


def _units(heads: int, kv_heads: int) -> int:
    """Heads that share keys stay together."""
    return 0 if heads == kv_heads else kv_heads


def attention(
    q: Any, k: Any, v: Any, mask: Any, bias: Any, sinks: Any, alibi_slopes: Any, *_: Any
) -> tuple[Split, ...]:  # fmt: skip
    if not len(q) == len(k) == len(v) == 4:
        return ()
    of_heads = _of_heads(sinks, alibi_slopes)
    for name, shape in (("mask", mask), ("bias", bias)):
        of_heads |= _broadcast(name, shape, 1, q[1])
    return (
        Split(_every(0, "q", "k", "v") | _of_batches(q, mask, bias, alibi_slopes), (0, 0)),
        Split(_every(1, "q", "k", "v") | of_heads, (1, 1), _units(q[1], k[1])),
    )


_GIVEN = ("dout", "out", "lse")


def backward(
    dout: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *rest: Any  # noqa: ARG001 - the schema's
) -> tuple[Split, ...]:  # fmt: skip
    sinks, found = rest[2], []
    for split in attention(q, k, v, *rest):
        (dim, *_) = split.results
        own = None if sinks is None else SUM if dim == 0 else 0
        found.append(Split({**split.arguments, **_every(int(dim or 0), *_GIVEN)}, (dim, dim, dim, own), split.units))
    return tuple(found)


def varlen(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, sinks: Any, alibi_slopes: Any, *_: Any  # noqa: ARG001
) -> tuple[Split, ...]:  # fmt: skip
    if not len(q) == len(k) == len(v) == 3:
        return ()
    return (Split(_every(1, "q", "k", "v") | _of_heads(sinks, alibi_slopes), (1, 0), _units(q[1], k[1])),)


def varlen_backward(
    dout: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *rest: Any  # noqa: ARG001 - the schema's
) -> tuple[Split, ...]:  # fmt: skip
    own = None if rest[2] is None else 0
    return tuple(
        Split({**split.arguments, "dout": 1, "out": 1, "lse": 0}, (1, 1, 1, own), split.units)
        for split in varlen(q, k, v, *rest)
    )


def decode(
    q: Any, k: Any, v: Any, lengths: Any, block_table: Any, batch_index: Any, sinks: Any, alibi_slopes: Any, *_: Any
) -> tuple[Split, ...]:  # fmt: skip
    if not len(q) == len(k) == len(v) == 4:
        return ()
    found = [Split(_every(1, "q", "k", "v") | _of_heads(sinks, alibi_slopes), (1, 1), _units(q[1], k[1]))]
    if block_table is None and batch_index is None:
        more = _of_batches(q, None, None, alibi_slopes) | ({} if lengths is None else {"lengths": 0})
        found.insert(0, Split(_every(0, "q", "k", "v") | more, (0, 0)))
    return tuple(found)


def append(
    q: Any, k: Any, v: Any, k_new: Any, v_new: Any, lengths: Any, block_table: Any, batch_index: Any, cos: Any,  # noqa: ARG001
    sin: Any, sinks: Any, alibi_slopes: Any, *_: Any,  # noqa: ARG001 - the schema's
) -> tuple[Split, ...]:  # fmt: skip
    return tuple(
        Split({**split.arguments, **_every(split.arguments["k"], "k_new", "v_new")}, split.results, split.units)
        for split in decode(q, k, v, lengths, block_table, batch_index, sinks, alibi_slopes)
    )


def attention_fp8(
    q: Any, k: Any, v: Any, q_scale: Any, k_scale: Any, v_scale: Any, *_: Any
) -> tuple[Split, ...]:  # fmt: skip
    if not len(q) == len(k) == len(v) == 4:
        return ()
    found: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for name, shape, of in (("q_scale", q_scale, q), ("k_scale", k_scale, k), ("v_scale", v_scale, v)):
        for dim in (0, 1):
            at = -1 if shape is None else dim - 2 + len(shape)
            if shape is not None and at >= 0 and shape[at] == of[dim]:
                found[dim][name] = at
    return (
        Split(_every(0, "q", "k", "v") | found[0], (0, 0)),
        Split(_every(1, "q", "k", "v") | found[1], (1, 1), _units(q[1], k[1])),
    )


# --- rope -------------------------------------------------------------------------


def _turned(names: tuple[str, ...], x: Any, cos: Any, positions: Any, results: int) -> tuple[Split, ...]:
    """By batches, by heads, and by rows where each row's place is given."""
    if len(x) != 4:
        return ()
    tables = ("cos", "sin") if len(cos) == 3 else ()
    batches = {name: 0 for name in tables if cos[0] == x[0]}
    if positions is not None and (len(positions) == 1 or positions[0] == x[0]):
        batches["positions"] = 0
    found = [(0, batches), (1, {})]
    if tables or (positions is not None and len(positions) == 2):
        found.append((2, _every(1, *tables) | ({} if positions is None else {"positions": 1})))
    return tuple(Split(_every(dim, *names) | more, (dim,) * results) for dim, more in found)


def rope(x: Any, cos: Any, sin: Any, positions: Any, *_: Any) -> tuple[Split, ...]:  # noqa: ARG001 - the schema's
    return _turned(("x",), x, cos, positions, 1)


def rope_pair(x: Any, k: Any, cos: Any, sin: Any, positions: Any, *_: Any) -> tuple[Split, ...]:  # noqa: ARG001
    return _turned(("x", "k"), x, cos, positions, 2) if len(k) == 4 else ()


def rope_written(x: Any, cos: Any, sin: Any, positions: Any, *_: Any) -> tuple[Split, ...]:  # noqa: ARG001
    return _turned(("x",), x, cos, positions, 0)


def rope_pair_written(x: Any, k: Any, cos: Any, sin: Any, positions: Any, *_: Any) -> tuple[Split, ...]:  # noqa: ARG001
    return _turned(("x", "k"), x, cos, positions, 0) if len(k) == 4 else ()
