# SPDX-License-Identifier: MIT
"""Attention of sequences: its checks, its definition in plain torch, calls of the C function, derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._handles import handles
from kernelwright.ops._scratch import scratch, scratch_bytes
from kernelwright.ops._tensors import placement, refuse_freed, require_dtype, without_autocast
from kernelwright.ops.attention import _checks as checks
from kernelwright.ops.attention import _launch as dense
from kernelwright.ops.attention import _reference as reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from kernelwright._library import Library

NAME = "attention_varlen"


def check(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, sinks: Tensor | None,
    alibi_slopes: Tensor | None, max_q: int, max_k: int, scale: float, causal: bool, window_left: int,  # noqa: ARG001
    window_right: int, softcap: float, deterministic: bool,  # noqa: ARG001
) -> None:  # fmt: skip
    import torch

    checks.check_heads(NAME, q, k, v, 3, 1)
    checks.check_options(NAME, scale, window_left, window_right, softcap)
    for name, starts in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
        require_dtype(NAME, name, starts, (torch.int32, torch.float64))
        checks.require_place(NAME, name, starts, q)
        if starts.dim() != 1 or starts.shape[0] < 1 or starts.shape != cu_seqlens_q.shape:
            raise InvalidArgument(
                f"{NAME}: {name} has shape {tuple(starts.shape)}; both must have one element for each "
                "sequence, and one more"
            )
    for name, most in (("max_q", max_q), ("max_k", max_k)):
        if most < 0:
            raise InvalidArgument(f"{NAME}: {name} is {most}, but must not be negative")
    checks.check_per_head(NAME, q, sinks, alibi_slopes, cu_seqlens_q.shape[0] - 1, q.shape[1])


def check_backward(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *rest: Any) -> None:
    check(q, k, v, *rest)
    shape = (*q.shape[:2], v.shape[2])
    for name, tensor in (("dout", dout), ("out", out)):
        require_dtype(f"{NAME}.backward", name, tensor, (q.dtype,))
        checks.require_place(f"{NAME}.backward", name, tensor, q)
        if tensor.shape != shape:
            raise InvalidArgument(f"{NAME}.backward: {name} has shape {tuple(tensor.shape)}, but must have {shape}")
    dense.check_lse(f"{NAME}.backward", lse, q, (q.shape[1], q.shape[0]))


# --- in plain torch ----------------------------------------------------------------


def _sequences(
    starts_q: Tensor, starts_k: Tensor, slopes: Tensor | None, max_q: int, max_k: int
) -> Iterator[tuple[slice, slice, Tensor | None]]:
    """Rows of q and of k of each sequence, and its slopes."""
    of_q, of_k = starts_q.long().tolist(), starts_k.long().tolist()
    for i in range(len(of_q) - 1):
        rows = slice(of_q[i], max(of_q[i], min(of_q[i + 1], of_q[i] + max_q)))
        keys = slice(of_k[i], max(of_k[i], min(of_k[i + 1], of_k[i] + max_k)))
        yield rows, keys, slopes if slopes is None or slopes.dim() == 1 else slopes[i : i + 1]


def _batch(tensor: Tensor) -> Tensor:
    """[rows, heads, d] as a batch of one."""
    return tensor.transpose(0, 1).unsqueeze(0)


def attention(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, sinks: Tensor | None,
    alibi_slopes: Tensor | None, max_q: int, max_k: int, scale: float, causal: bool, window_left: int,
    window_right: int, softcap: float, deterministic: bool,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:  # fmt: skip
    import torch

    options = scale, causal, window_left, window_right, softcap
    wide = reference.wide_type(q)
    out = torch.zeros((*q.shape[:2], v.shape[2]), dtype=q.dtype, device=q.device)
    lse = torch.zeros((q.shape[1], q.shape[0]), dtype=wide, device=q.device)
    for rows, keys, slopes in _sequences(cu_seqlens_q, cu_seqlens_k, alibi_slopes, max_q, max_k):
        of_q, of_k, of_v = (_batch(t) for t in (q[rows], k[keys], v[keys]))
        found, logs = reference.wide_attention(of_q, of_k, of_v, None, None, sinks, slopes, options)
        out[rows] = found[0].transpose(0, 1).to(q.dtype)
        lse[:, rows] = logs[0].detach()
    return out, lse


def terms(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, *rest: Any
) -> tuple[Tensor, Tensor]:
    out, lse = attention(q, k, v.abs(), cu_seqlens_q, cu_seqlens_k, *rest)
    return out, 1.0 + lse.abs()


def backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor,
    sinks: Tensor | None, alibi_slopes: Tensor | None, max_q: int, max_k: int, scale: float, causal: bool,
    window_left: int, window_right: int, softcap: float, deterministic: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    return _summed(
        reference.backward, dout, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, sinks, alibi_slopes, max_q, max_k,
        scale, causal, window_left, window_right, softcap, deterministic,
    )  # fmt: skip


def backward_terms(*args: Any) -> tuple[Tensor, ...]:
    return _summed(reference.backward_terms, *args)


def _summed(
    run: Any, dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor, sinks: Tensor | None, alibi_slopes: Tensor | None, max_q: int, max_k: int, *numbers: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """`run` of each sequence, its results where they belong."""
    import torch

    wide = reference.wide_type(q)
    dq, dk, dv = (torch.zeros(t.shape, dtype=q.dtype, device=q.device) for t in (q, k, v))
    dsinks = torch.zeros(0 if sinks is None else q.shape[1], dtype=wide, device=q.device)
    for rows, keys, slopes in _sequences(cu_seqlens_q, cu_seqlens_k, alibi_slopes, max_q, max_k):
        given = (_batch(t) for t in (dout[rows], q[rows], k[keys], v[keys], out[rows]))
        found = run(*given, lse[:, rows].unsqueeze(0), None, None, sinks, slopes, *numbers)
        for to, at, of in ((dq, rows, found[0]), (dk, keys, found[1]), (dv, keys, found[2])):
            to[at] = of[0].transpose(0, 1).to(q.dtype)
        if sinks is not None:
            dsinks += found[3]
    return dq, dk, dv, dsinks


# --- by kernels ----------------------------------------------------------------------


def bind(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    import torch

    place, fits = placement(library, key), dense.by_kernels(library)
    at: Callable[[Tensor], int] | None = None

    def run(
        q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, sinks: Tensor | None,
        alibi_slopes: Tensor | None, max_q: int, max_k: int, scale: float, causal: bool, window_left: int,
        window_right: int, softcap: float, deterministic: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        nonlocal at
        options = max_q, max_k, scale, causal, window_left, window_right, softcap, deterministic
        check(q, k, v, cu_seqlens_q, cu_seqlens_k, sinks, alibi_slopes, *options)
        refuse_freed(NAME, q=q, k=k, v=v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, sinks=sinks)
        device, stream = place(q)
        if not fits(q, device):
            return attention(q, k, v, cu_seqlens_q, cu_seqlens_k, sinks, alibi_slopes, *options)
        at = at or handles(library)
        # Rows of no sequence, such as padding behind the last, are zeros: no kernel comes to them.
        out = q.new_empty((*q.shape[:2], v.shape[2])).zero_()
        lse = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32).zero_()
        sinks, alibi_slopes = dense.per_head(sinks, alibi_slopes, cu_seqlens_q.shape[0] - 1, q.shape[1])
        starts = (t.to(torch.int32).contiguous() for t in (cu_seqlens_q, cu_seqlens_k))
        given = [*map(dense.adjacent, (q, k, v)), *starts, sinks, alibi_slopes]
        library.call(
            "kw_attention_varlen_tensors", stream, at(out), at(lse), *(None if t is None else at(t) for t in given),
            max_q, max_k, causal, window_left, window_right, scale, softcap,
        )  # fmt: skip
        return out, lse

    return run


def bind_backward(library: Library, key: str) -> Callable[..., tuple[Tensor, ...]]:
    import torch

    place, fits = placement(library, key), dense.by_kernels(library)
    bytes_of = scratch_bytes(library, "kw_attention_varlen_backward_workspace")
    at: Callable[[Tensor], int] | None = None

    def run(
        dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor, sinks: Tensor | None, alibi_slopes: Tensor | None, max_q: int, max_k: int, *options: Any,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        nonlocal at
        starts = cu_seqlens_q, cu_seqlens_k
        rest = sinks, alibi_slopes, max_q, max_k, *options
        check_backward(dout, q, k, v, out, lse, *starts, *rest)
        refuse_freed(NAME, dout=dout, q=q, k=k, v=v, out=out, lse=lse, sinks=sinks)
        device, stream = place(q)
        if not fits(q, device):
            return backward(dout, q, k, v, out, lse, *starts, *rest)
        at = at or handles(library)
        dq, dk, dv = (t.new_empty(t.shape).zero_() for t in (q, k, v))  # as in bind
        dsinks = q.new_empty(0 if sinks is None else q.shape[1], dtype=torch.float32)
        sizes = len(cu_seqlens_q) - 1, q.shape[1], q.shape[0], q.shape[2], v.shape[2], options[-1]
        workspace, address = scratch(q, device, bytes_of(device, *sizes))
        sinks, alibi_slopes = dense.per_head(sinks, alibi_slopes, cu_seqlens_q.shape[0] - 1, q.shape[1])
        scale, causal, left, right, softcap, deterministic = options
        given = [
            dq, dk, dv, None if sinks is None else dsinks, *map(dense.adjacent, (dout, q, k, v, out)),
            dense.adjacent(lse.to(torch.float32).contiguous()),
            *(t.to(torch.int32).contiguous() for t in starts), sinks, alibi_slopes,
        ]  # fmt: skip
        library.call(
            "kw_attention_varlen_backward_tensors", stream, *(None if t is None else at(t) for t in given), address,
            0 if workspace is None else workspace.nbytes, max_q, max_k, causal, left, right, deterministic, scale,
            softcap,
        )  # fmt: skip
        return dq, dk, dv, dsinks

    return run


def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.options = inputs[7:]
    ctx.save_for_backward(*inputs[:7], *output)
    ctx.mark_non_differentiable(output[1])  # where sequences begin is not known while a program is traced
    ctx.set_materialize_grads(False)


def gradients(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Any, ...]:  # noqa: ARG001 - lse has none
    """As those of batches."""
    import torch

    if dout is None:
        return (None,) * 15
    saved, wanted = ctx.saved_tensors, ctx.needs_input_grad
    q, k, v, starts_q, starts_k, sinks, slopes, out, lse = saved
    if torch.is_grad_enabled() or wanted[6]:
        dq, dk, dv, dsinks, dslopes = _in_torch(dout, saved, ctx.options)
    else:
        options = (*ctx.options[:-1], dense.repeats(ctx.options[-1]))
        dq, dk, dv, dsinks = calls.attention_varlen.backward(
            dout, q, k, v, out, lse, starts_q, starts_k, sinks, slopes, *options
        )
        dslopes = None
    found, given = (dq, dk, dv, None, None, dsinks, dslopes), (q, k, v, None, None, sinks, slopes)
    kept = (
        g.to(a.dtype) if want and g is not None and a is not None else None
        for g, want, a in zip(found, wanted, given, strict=False)
    )
    return (*kept, *(None,) * 8)


def _in_torch(dout: Tensor, saved: Any, options: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sequence after sequence."""
    import torch

    q, k, v, starts_q, starts_k, sinks, slopes, out, lse = saved
    wide = reference.wide_type(q)
    dq, dk, dv = (torch.zeros(t.shape, dtype=wide, device=q.device) for t in (q, k, v))
    dsinks, dslopes = (
        None if t is None else torch.zeros(t.shape, dtype=wide, device=q.device) for t in (sinks, slopes)
    )
    with without_autocast(q.device):
        for i, (rows, keys, own) in enumerate(_sequences(starts_q, starts_k, slopes, *options[:2])):
            part = (*(_batch(t) for t in (q[rows], k[keys], v[keys])), None, None, sinks, own)
            part = (*part, _batch(out[rows]), lse[:, rows].unsqueeze(0))
            found = dense.in_torch(_batch(dout[rows]), None, part, options[2:])
            for to, at, of in ((dq, rows, found[0]), (dk, keys, found[1]), (dv, keys, found[2])):
                to[at] = of[0].transpose(0, 1)
            if dsinks is not None:
                dsinks = dsinks + found[4]
            if dslopes is not None:
                dslopes[i if slopes.dim() == 2 else slice(None)] += found[5].reshape(-1)
    return dq, dk, dv, dsinks, dslopes
