# SPDX-License-Identifier: MIT
"""From tensors to calls of kw_attention_decode_tensors, or to plain torch where there are no kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._handles import handles
from kernelwright.ops._scratch import scratch, scratch_bytes
from kernelwright.ops._tensors import (
    placement,
    reaches,
    refuse_freed,
    refuse_inference,
    refuse_overlap,
    require_dtype,
    span,
)
from kernelwright.ops.attention import _checks as checks
from kernelwright.ops.attention import _decode_reference as reference
from kernelwright.ops.attention import _launch as dense
from kernelwright.ops.attention._reference import wide_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

NAME = "attention_decode"
Maybe = Any  # Tensor or None, in signatures of a dozen of them


def refuse_alone(k_new: Maybe, v_new: Maybe, cos: Maybe, sin: Maybe) -> None:
    for name, tensor in (("k_new", k_new), ("v_new", v_new), ("cos", cos), ("sin", sin)):
        if tensor is not None:
            raise InvalidArgument(f"{NAME}: {name} is given, but {'k_new or v_new'} is not; give both")


def _held(name: str, tensor: Tensor, q: Tensor, shape: tuple[int | None, ...], *dtypes: Any) -> None:
    require_dtype(NAME, name, tensor, dtypes or (q.dtype,))
    checks.require_place(NAME, name, tensor, q)
    fits = tensor.dim() == len(shape) and all(s in (None, t) for s, t in zip(shape, tensor.shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise InvalidArgument(f"{NAME}: {name} has shape {tuple(tensor.shape)}, but must have ({wanted})")


def _check(q: Tensor, k: Tensor, v: Tensor, lengths: Maybe, table: Maybe, index: Maybe) -> None:
    import torch

    form = [(t.narrow(0, 0, min(1, t.shape[0])) if t.dim() else t) for t in (q, k, v)]  # but for their batches
    if form[0].dim() == 4 and not form[0].shape[0]:
        form = [t.narrow(0, 0, 0) if t.dim() else t for t in form]
    of_q, of_k, of_v = form
    checks.check_heads(NAME, of_q, of_k, of_v, 4, 1)
    if k.shape[:3] != v.shape[:3]:
        raise InvalidArgument(f"{NAME}: k has shape {tuple(k.shape)}, v {tuple(v.shape)}; caches must be alike")
    batch = q.shape[0]
    for name, tensor, shape in (
        ("lengths", lengths, (batch,)),
        ("batch_index", index, (batch,)),
        ("block_table", table, (batch, None)),
    ):
        if tensor is not None:
            _held(name, tensor, q, shape, torch.int32)
    if table is not None and index is not None:
        raise InvalidArgument(f"{NAME}: block_table and batch_index are both given; a table says it all")
    if table is None and index is None and k.shape[0] != batch:
        raise InvalidArgument(f"{NAME}: k has {k.shape[0]} batches, q {batch}; give batch_index, or as many")


def check(
    q: Tensor, k: Tensor, v: Tensor, lengths: Maybe, block_table: Maybe, batch_index: Maybe, sinks: Maybe,
    alibi_slopes: Maybe, scale: float, causal: bool, window_left: int, window_right: int, softcap: float, splits: int,  # noqa: ARG001
) -> None:  # fmt: skip
    _check(q, k, v, lengths, block_table, batch_index)
    checks.check_options(NAME, scale, window_left, window_right, softcap)
    checks.check_per_head(NAME, q, sinks, alibi_slopes, q.shape[0], q.shape[1])
    if splits < 0:
        raise InvalidArgument(f"{NAME}: splits is {splits}, but must be 0 (as many as fill the GPU) or more")


def check_append(
    q: Tensor, k: Tensor, v: Tensor, k_new: Tensor, v_new: Tensor, lengths: Maybe, table: Maybe, index: Maybe,
    cos: Maybe, sin: Maybe, sinks: Maybe, slopes: Maybe, *options: Any,
) -> None:  # fmt: skip
    numbers = (*options[:5], options[6])
    check(q, k, v, lengths, table, index, sinks, slopes, *numbers)
    _held("k_new", k_new, q, (q.shape[0], k.shape[1], None, q.shape[3]))
    _held("v_new", v_new, q, (q.shape[0], k.shape[1], k_new.shape[2], v.shape[3]))
    room = k.shape[2] * (1 if table is None else table.shape[1])
    if lengths is None or k_new.shape[2] > room:
        raise InvalidArgument(
            f"{NAME}: k_new has {k_new.shape[2]} rows for caches of {room}; they must fit, and lengths say where"
        )
    if (cos is None) != (sin is None):
        raise InvalidArgument(f"{NAME}: cos and sin are given together, or neither")
    if cos is not None:
        _held("cos", cos, q, (None, None))
        _held("sin", sin, q, tuple(cos.shape))
        if cos.shape[1] * 2 > q.shape[3] or not cos.shape[0]:
            raise InvalidArgument(f"{NAME}: cos has shape {tuple(cos.shape)}, but rows have {q.shape[3]} elements")
    for name, tensor in (("k", k), ("v", v)):
        refuse_inference(NAME, name, tensor)
        refuse_overlap(NAME, name, tensor)


def _made(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    wide = wide_type(q)
    return q.new_empty((*q.shape[:3], v.shape[3])), q.new_empty(
        q.shape[:3], dtype=wide if q.dtype == torch.float64 else torch.float32
    )


def fake(
    q: Tensor, k: Tensor, v: Tensor, lengths: Maybe, block_table: Maybe, batch_index: Maybe, sinks: Maybe,
    alibi_slopes: Maybe, scale: float, causal: bool, window_left: int, window_right: int, softcap: float, splits: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    check(
        q, k, v, lengths, block_table, batch_index, sinks, alibi_slopes, scale, causal, window_left, window_right,
        softcap, splits,
    )  # fmt: skip
    return _made(q, v)


def fake_append(
    q: Tensor, k: Tensor, v: Tensor, k_new: Tensor, v_new: Tensor, lengths: Maybe, block_table: Maybe,
    batch_index: Maybe, cos: Maybe, sin: Maybe, sinks: Maybe, alibi_slopes: Maybe, scale: float, causal: bool,
    window_left: int, window_right: int, softcap: float, interleaved: bool, splits: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    places, options = (lengths, block_table, batch_index), (scale, causal, window_left, window_right, softcap)
    check_append(q, k, v, k_new, v_new, *places, cos, sin, sinks, alibi_slopes, *options, interleaved, splits)
    return _made(q, v)


def _caller(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor] | None]:
    """run(q, k, v, others in the C function's order, options); None for types that no kernel has."""
    place, fits = placement(library, key), dense.by_kernels(library)
    bytes_of = scratch_bytes(library, "kw_attention_decode_workspace")
    at: Callable[[Tensor], int] | None = None

    def run(
        q: Tensor, k: Tensor, v: Tensor, others: list[Maybe], sinks: Maybe, slopes: Maybe, options: tuple[Any, ...],
        interleaved: bool, splits: int,
    ) -> tuple[Tensor, Tensor] | None:  # fmt: skip
        nonlocal at
        device, stream = place(q)
        if not fits(q, device):
            return None
        at = at or handles(library)
        out, lse = _made(q, v)
        table = others[3]
        rows = k.shape[2] * (1 if table is None else table.shape[1])
        sinks, slopes = dense.per_head(sinks, slopes, q.shape[0], q.shape[1])
        size = bytes_of(device, *q.shape[:2], k.shape[1], q.shape[2], rows, q.shape[3], v.shape[3], splits)
        workspace, address = scratch(q, device, size)
        given = [out, lse, dense.adjacent(q), k, v, *others, sinks, slopes]
        scale, causal, left, right, softcap = options
        library.call(
            "kw_attention_decode_tensors", stream, *(None if t is None else at(t) for t in given), address,
            0 if workspace is None else workspace.nbytes, causal, left, right, interleaved, splits, scale, softcap,
        )  # fmt: skip
        return out, lse

    return run


def _contiguous(tensor: Maybe) -> Maybe:
    return None if tensor is None else tensor.contiguous()


def bind(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    call = _caller(library, key)

    def run(
        q: Tensor, k: Tensor, v: Tensor, lengths: Maybe, block_table: Maybe, batch_index: Maybe, sinks: Maybe,
        alibi_slopes: Maybe, *options: Any,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        given = q, k, v, lengths, block_table, batch_index, sinks, alibi_slopes, *options
        check(*given)
        refuse_freed(
            NAME, q=q, k=k, v=v, lengths=lengths, block_table=block_table, batch_index=batch_index, sinks=sinks
        )
        others = [None, None, *map(_contiguous, (lengths, block_table, batch_index)), None, None]
        found = call(
            q, dense.adjacent(k), dense.adjacent(v), others, sinks, alibi_slopes, options[:5], False, options[5]
        )
        return reference.decode(*given) if found is None else found

    return run


def _apart(caches: tuple[Tensor, Tensor], given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What is read, copied where it shares memory with a cache: the cache's new rows are written meanwhile."""
    k, v = caches
    if k.numel() and k.data_ptr() == v.data_ptr():
        raise InvalidArgument(f"kw_{NAME}: k and v are the same memory; both are written, so give each its own")
    written = [span(cache) for cache in caches if cache.numel()]
    return tuple(t.clone() if t.numel() and any(reaches(t, *at) for at in written) else t for t in given)


def bind_append(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    import torch

    call, changed = _caller(library, key), torch.autograd.graph.increment_version

    def run(
        q: Tensor, k: Tensor, v: Tensor, k_new: Tensor, v_new: Tensor, lengths: Maybe, block_table: Maybe,
        batch_index: Maybe, cos: Maybe, sin: Maybe, sinks: Maybe, alibi_slopes: Maybe, *options: Any,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        given = (
            q, k, v, k_new, v_new, lengths, block_table, batch_index, cos, sin, sinks, alibi_slopes, *options
        )  # fmt: skip
        check_append(*given)
        refuse_freed(NAME, q=q, k=k, v=v, k_new=k_new, v_new=v_new, lengths=lengths, cos=cos, sin=sin, sinks=sinks)
        q, k_new, v_new = _apart((k, v), (q, k_new, v_new))
        if cos is not None and sin is not None:
            cos, sin = _apart((k, v), (cos, sin))
        given = q, k, v, k_new, v_new, lengths, block_table, batch_index, cos, sin, *given[10:]
        caches = dense.adjacent(k), dense.adjacent(v)
        fresh = dense.adjacent(k_new), dense.adjacent(v_new)
        others = [*fresh, *map(_contiguous, (lengths, block_table, batch_index, cos, sin))]
        found = call(q, *caches, others, sinks, alibi_slopes, options[:5], options[5], options[6])
        if found is None:
            return reference.append(*given)
        changed([k, v])
        for mine, theirs in zip(caches, (k, v), strict=True):
            if mine is not theirs:
                theirs.copy_(mine)
        return found

    return run
