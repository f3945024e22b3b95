# SPDX-License-Identifier: MIT
"""From tensors to calls of the C functions of attention, or to plain torch where there are no kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._handles import handles
from kernelwright.ops._scratch import scratch, scratch_bytes
from kernelwright.ops._tensors import placement, refuse_freed, require_dtype, without_autocast
from kernelwright.ops.attention import _checks as checks
from kernelwright.ops.attention import _reference as reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

NAME = "attention"


def check(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, sinks: Tensor | None,
    alibi_slopes: Tensor | None, scale: float, causal: bool, window_left: int, window_right: int,  # noqa: ARG001
    softcap: float, deterministic: bool,  # noqa: ARG001
) -> None:  # fmt: skip
    checks.check_heads(NAME, q, k, v, 4, 1)
    checks.check_options(NAME, scale, window_left, window_right, softcap)
    checks.check_per_head(NAME, q, sinks, alibi_slopes, q.shape[0], q.shape[1])
    checks.check_scores(NAME, q, k, mask, bias)


def check_backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, mask: Tensor | None, bias: Tensor | None,
    sinks: Tensor | None, alibi_slopes: Tensor | None, *options: Any,
) -> None:  # fmt: skip
    check(q, k, v, mask, bias, sinks, alibi_slopes, *options)
    shape = (*q.shape[:3], v.shape[3])
    for name, tensor in (("dout", dout), ("out", out)):
        require_dtype(f"{NAME}.backward", name, tensor, (q.dtype,))
        checks.require_place(f"{NAME}.backward", name, tensor, q)
        if tensor.shape != shape:
            raise InvalidArgument(f"{NAME}.backward: {name} has shape {tuple(tensor.shape)}, but must have {shape}")
    check_lse(f"{NAME}.backward", lse, q, tuple(q.shape[:3]))


def check_lse(op: str, lse: Tensor, q: Tensor, shape: tuple[Any, ...]) -> None:
    import torch

    require_dtype(op, "lse", lse, (torch.float32, torch.float64))
    checks.require_place(op, "lse", lse, q)
    if lse.shape != shape:
        raise InvalidArgument(f"{op}: lse has shape {tuple(lse.shape)}, but must have {shape}")


def adjacent(tensor: Tensor) -> Tensor:
    """With elements of a row side by side, which is all that kernels want."""
    import torch

    if tensor.stride(-1) == 1 or tensor.shape[-1] == 1:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)  # .contiguous() leaves what has no elements as it is


def per_head(
    sinks: Tensor | None, slopes: Tensor | None, batch: int, heads: int
) -> tuple[Tensor | None, Tensor | None]:
    """As the C functions want them: contiguous [heads], and [batch, heads], of float32."""
    import torch

    sinks = None if sinks is None else sinks.to(torch.float32).contiguous()
    if slopes is not None:
        slopes = slopes.to(torch.float32).expand(batch, heads)
    return sinks, slopes


def as_scores(mask: Tensor | None, bias: Tensor | None, shape: tuple[int, ...]) -> tuple[Tensor | None, Tensor | None]:
    import torch

    if mask is not None:
        mask = (mask.view(torch.uint8) if mask.dtype == torch.bool else mask).expand(shape)
    return mask, None if bias is None else bias.expand(shape)


def by_kernels(library: Library) -> Callable[[Tensor, int], bool]:
    """A function of q and its device's number: whether the C library has kernels for such tensors there."""
    import torch

    here, types = library.constants["KW_CPU"], (torch.float16, torch.bfloat16)
    return lambda q, device: q.dtype in types or (device == here < 0 and q.dtype == torch.float32)


def of_heads(like: Tensor, d: int) -> Tensor:
    batch, heads, rows, _ = like.shape
    return like.new_empty((batch, rows, heads, d)).transpose(1, 2)


def bind(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    import torch

    place, fits = placement(library, key), by_kernels(library)
    at: Callable[[Tensor], int] | None = None

    def run(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, sinks: Tensor | None,
        alibi_slopes: Tensor | None, scale: float, causal: bool, window_left: int, window_right: int, softcap: float,
        deterministic: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        nonlocal at
        options = scale, causal, window_left, window_right, softcap, deterministic
        check(q, k, v, mask, bias, sinks, alibi_slopes, *options)
        refuse_freed(NAME, q=q, k=k, v=v, mask=mask, bias=bias, sinks=sinks, alibi_slopes=alibi_slopes)
        device, stream = place(q)
        if not fits(q, device):
            return reference.attention(q, k, v, mask, bias, sinks, alibi_slopes, *options)
        at = at or handles(library)
        out, lse = of_heads(q, v.shape[3]), q.new_empty(q.shape[:3], dtype=torch.float32)
        sinks, alibi_slopes = per_head(sinks, alibi_slopes, q.shape[0], q.shape[1])
        mask, bias = as_scores(mask, bias, (*q.shape[:3], k.shape[2]))
        given = [adjacent(q), adjacent(k), adjacent(v), mask, bias, sinks, alibi_slopes]
        library.call(
            "kw_attention_tensors", stream, at(out), at(lse), *(None if t is None else at(t) for t in given), causal,
            window_left, window_right, scale, softcap,
        )  # fmt: skip
        return out, lse

    return run


def bind_backward(library: Library, key: str) -> Callable[..., tuple[Tensor, ...]]:
    import torch

    place, fits = placement(library, key), by_kernels(library)
    bytes_of = scratch_bytes(library, "kw_attention_backward_workspace")
    at: Callable[[Tensor], int] | None = None

    def run(
        dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, mask: Tensor | None,
        bias: Tensor | None, sinks: Tensor | None, alibi_slopes: Tensor | None, *options: Any,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        nonlocal at
        check_backward(dout, q, k, v, out, lse, mask, bias, sinks, alibi_slopes, *options)
        refuse_freed(NAME, dout=dout, q=q, k=k, v=v, out=out, lse=lse, mask=mask, bias=bias, sinks=sinks)
        device, stream = place(q)
        if not fits(q, device):
            return reference.backward(dout, q, k, v, out, lse, mask, bias, sinks, alibi_slopes, *options)
        at = at or handles(library)
        dq, dk, dv = (of_heads(t, t.shape[3]) for t in (q, k, v))
        dsinks = q.new_empty(0 if sinks is None else q.shape[1], dtype=torch.float32)
        workspace, address = scratch(q, device, bytes_of(device, *q.shape, v.shape[3], options[-1]))
        sinks, alibi_slopes = per_head(sinks, alibi_slopes, q.shape[0], q.shape[1])
        mask, bias = as_scores(mask, bias, (*q.shape[:3], k.shape[2]))
        scale, causal, left, right, softcap, deterministic = options
        given = [
            dq, dk, dv, None if sinks is None else dsinks, *map(adjacent, (dout, q, k, v, out)),
            adjacent(lse.to(torch.float32).contiguous()), mask, bias, sinks, alibi_slopes,
        ]  # fmt: skip
        library.call(
            "kw_attention_backward_tensors", stream, *(None if t is None else at(t) for t in given), address,
            0 if workspace is None else workspace.nbytes, causal, left, right, deterministic, scale, softcap,
        )  # fmt: skip
        return dq, dk, dv, dsinks

    return run


def repeats(deterministic: bool) -> bool:
    """Whether a backward pass must give the same bits each time: by its own argument, or by torch's setting."""
    import torch

    return deterministic or torch.are_deterministic_algorithms_enabled()


def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.options = inputs[7:]
    ctx.save_for_backward(*inputs[:7], *output)
    ctx.set_materialize_grads(False)


def gradients(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Any, ...]:
    """By kernels, where their derivatives are all that is asked for."""
    import torch

    if dout is None and dlse is None:
        return (None,) * 13
    saved = ctx.saved_tensors
    bias, sinks, slopes, out, lse = saved[4:]
    dout = torch.zeros_like(out) if dout is None else dout
    wanted = ctx.needs_input_grad
    if torch.is_grad_enabled() or dlse is not None or wanted[4] or wanted[6]:
        found = in_torch(dout, dlse, saved, ctx.options)
    else:
        options = (*ctx.options[:-1], repeats(ctx.options[-1]))
        dq, dk, dv, dsinks = calls.attention.backward(
            dout, *saved[:3], out, lse, saved[3], bias, sinks, slopes, *options
        )
        found = dq, dk, dv, None, dsinks, None
    dq, dk, dv, dbias, dsinks, dslopes = found
    given = (*saved[:3], None, bias, sinks, slopes)
    kept = (
        g.to(a.dtype) if want and g is not None and a is not None else None
        for g, want, a in zip((dq, dk, dv, None, dbias, dsinks, dslopes), wanted, given, strict=False)
    )
    return (*kept, *(None,) * 6)


def in_torch(dout: Tensor, dlse: Tensor | None, saved: Any, options: tuple[Any, ...]) -> tuple[Any, ...]:
    """For what kernels do not have: derivatives of derivatives, and those by bias and slopes, or of lse."""
    import torch

    q, k, v, mask, bias, sinks, slopes, out, lse = saved
    with without_autocast(q.device):
        if torch.is_grad_enabled():
            out, lse = reference.wide_attention(q, k, v, mask, bias, sinks, slopes, options[:5])
        found = reference.derivatives(dout, dlse, q, k, v, out, lse, mask, bias, sinks, slopes, options[:5])
        dk, dv = (reference.of_each_head(f, k.shape[1]) for f in found[1:3])
        return found[0], dk, dv, *found[3:]
