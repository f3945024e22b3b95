# SPDX-License-Identifier: MIT
"""Attention in plain torch, for any device and float64 too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._tensors import without_autocast

if TYPE_CHECKING:
    from torch import Tensor

Options = tuple[float, bool, int, int, float]
"""scale, causal, window_left, window_right, softcap: as the schemas have them at their end."""


def wide_type(tensor: Tensor) -> Any:
    import torch

    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def as_heads(values: Tensor, dtype: Any) -> Tensor:
    """[batch, heads, rows, d] as kernels return it: in memory a row has all heads."""
    import torch

    batch, heads, rows, d = values.shape
    made = torch.empty((batch, rows, heads, d), dtype=dtype, device=values.device).transpose(1, 2)
    return made.copy_(values)


def _places(queries: int, keys: int, device: Any) -> Tensor:
    """How far each key is behind each query's place."""
    import torch

    place = torch.arange(queries, device=device).unsqueeze(1) + (keys - queries)
    return torch.arange(keys, device=device) - place


def visible(queries: int, keys: int, mask: Tensor | None, options: Options, device: Any) -> Tensor:
    """Which keys a query sees: [queries, keys], or broadcast to the mask's shape."""
    import torch

    _, causal, left, right, _ = options
    behind = _places(queries, keys, device)
    seen = torch.ones_like(behind, dtype=torch.bool)
    if causal:
        seen = seen & (behind <= 0)
    if left >= 0:
        seen = seen & (behind >= -left)
    if right >= 0:
        seen = seen & (behind <= right)
    return seen if mask is None else seen & (mask != 0)


def scores(
    q: Tensor, k: Tensor, mask: Tensor | None, bias: Tensor | None, slopes: Tensor | None, options: Options
) -> Tensor:
    """[batch, heads, queries, keys]; minus infinity where a key takes no part. k has as many heads as q."""
    import torch

    s = torch.matmul(q, k.transpose(-1, -2)) * options[0]
    if options[4]:
        s = options[4] * torch.tanh(s / options[4])
    if slopes is not None:
        distance = _places(q.shape[-2], k.shape[-2], q.device).abs().to(s.dtype)
        s = s - (slopes if slopes.dim() == 2 else slopes.unsqueeze(0)).to(s.dtype)[:, :, None, None] * distance
    if bias is not None:
        s = s + bias.to(s.dtype)
    seen = visible(q.shape[-2], k.shape[-2], mask, options, q.device)
    return s.masked_fill(~seen, -torch.inf)


def softmax(s: Tensor, sinks: Tensor | None) -> tuple[Tensor, Tensor]:
    """Of rows of scores, and the logarithm of what they are divided by; zeros where nothing is seen."""
    import torch

    if sinks is not None:
        column = sinks.to(s.dtype)[None, :, None, None].expand(*s.shape[:-1], 1)
        s = torch.cat([s, column], -1)
    if s.shape[-1] == 0:
        return s, s.new_full(s.shape[:-1], -torch.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - torch.where(lse == -torch.inf, 0.0, lse).unsqueeze(-1))
    return (p if sinks is None else p[..., :-1]), lse


def every_head(tensor: Tensor, heads: int) -> Tensor:
    """Heads of k or v, one for each head of q."""
    return tensor.repeat_interleave(heads // tensor.shape[1], 1) if tensor.shape[1] != heads else tensor


def wide_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, sinks: Tensor | None,
    slopes: Tensor | None, options: Options,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """In float32, or float64, without rounding at the end."""
    import torch

    wide, heads = wide_type(q), q.shape[1]
    with without_autocast(q.device):
        s = scores(q.to(wide), every_head(k, heads).to(wide), mask, bias, slopes, options)
        p, lse = softmax(s, sinks)
        return torch.matmul(p, every_head(v, heads).to(wide)), lse


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, sinks: Tensor | None,
    alibi_slopes: Tensor | None, scale: float, causal: bool, window_left: int, window_right: int, softcap: float,
    deterministic: bool,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:  # fmt: skip
    options = scale, causal, window_left, window_right, softcap
    out, lse = wide_attention(q, k, v, mask, bias, sinks, alibi_slopes, options)
    return as_heads(out, q.dtype), lse.contiguous()


def terms(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, sinks: Tensor | None,
    alibi_slopes: Tensor | None, *numbers: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Results are means of v; lse errs as scores do, in float32."""
    out, lse = wide_attention(q, k, v.abs(), mask, bias, sinks, alibi_slopes, tuple(numbers[:5]))
    return out, 1.0 + lse.abs()


def _of_bias(found: Tensor, like: Tensor) -> Tensor:
    """Summed over what the tensor was broadcast to."""
    return found.sum_to_size(like.shape) if found.shape != like.shape else found


def derivatives(
    dout: Tensor, dlse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, mask: Tensor | None,
    bias: Tensor | None, sinks: Tensor | None, slopes: Tensor | None, options: Options,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """By q, k, v, bias, sinks and slopes, in float32 or float64, of operations that have derivatives themselves."""
    import torch

    wide, heads, scale, softcap = wide_type(q), q.shape[1], options[0], options[4]
    dout, lse = dout.to(wide), lse.to(wide)
    q, k, v = q.to(wide), every_head(k, heads).to(wide), every_head(v, heads).to(wide)
    s = scores(q, k, mask, bias, slopes, options)
    lse = torch.where(lse == -torch.inf, 0.0, lse)
    p = torch.exp(s - lse.unsqueeze(-1))
    least = (dout * out.to(wide)).sum(-1)
    if dlse is not None:
        least = least - dlse.to(wide)
    ds = p * (torch.matmul(dout, v.transpose(-1, -2)) - least.unsqueeze(-1))
    dbias = None if bias is None else _of_bias(ds, bias)
    dslopes = None
    if slopes is not None:
        distance = _places(q.shape[-2], k.shape[-2], q.device).abs().to(wide)
        each = -(ds * distance).sum((2, 3))
        dslopes = each if slopes.dim() == 2 else each.sum(0)
    dsinks = None if sinks is None else -(torch.exp(sinks.to(wide)[None, :, None] - lse) * least).sum((0, 2))
    ds = ds * scale
    if softcap:
        ds = ds * (1 - torch.tanh(torch.matmul(q, k.transpose(-1, -2)) * (scale / softcap)) ** 2)
    return torch.matmul(ds, k), torch.matmul(ds.transpose(-1, -2), q), torch.matmul(p.transpose(-1, -2), dout), *(
        dbias, dsinks, dslopes
    )  # fmt: skip


def of_each_head(found: Tensor, kv_heads: int) -> Tensor:
    """Summed over the heads of q that share one of k."""
    batch, heads, *rest = found.shape
    return found if heads == kv_heads else found.reshape(batch, kv_heads, heads // kv_heads, *rest).sum(2)


def backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, mask: Tensor | None,
    bias: Tensor | None, sinks: Tensor | None, alibi_slopes: Tensor | None, scale: float, causal: bool,
    window_left: int, window_right: int, softcap: float, deterministic: bool,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """By q, k, v and the sinks, which are none where there are none."""
    options = scale, causal, window_left, window_right, softcap
    with without_autocast(q.device):
        dq, dk, dv, _, dsinks, _ = derivatives(dout, None, q, k, v, out, lse, mask, bias, sinks, alibi_slopes, options)
        kv = (of_each_head(found, k.shape[1]) for found in (dk, dv) if found is not None)
    made = (as_heads(found, q.dtype) for found in (dq, *kv) if found is not None)
    dq, dk, dv = made
    return dq, dk, dv, q.new_empty(0, dtype=wide_type(q)) if dsinks is None else dsinks


def backward_terms(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, mask: Tensor | None,  # noqa: ARG001
    bias: Tensor | None, sinks: Tensor | None, alibi_slopes: Tensor | None, *numbers: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """What is summed for each of them, made of sizes alone."""
    import torch

    *options, _ = numbers
    heads, kv_heads = q.shape[1], k.shape[1]
    every_k, every_v = every_head(k, heads), every_head(v, heads)
    s = scores(q, every_k, mask, bias, alibi_slopes, tuple(options))
    p, found = softmax(s, sinks)
    size = dout.abs()
    dp = torch.matmul(size, every_v.abs().transpose(-1, -2))
    values = torch.matmul(p, every_v.abs())
    values = torch.where(values.isnan(), out.abs(), values)  # the sum is made of `out`, which may be of other values
    delta = (size * values).sum(-1, keepdim=True)
    ds = p * (dp + delta) * abs(options[0])

    def summed(values: Tensor) -> Tensor:
        batch, _, *rest = values.shape
        return values.view(batch, kv_heads, heads // kv_heads, *rest).sum(2)

    dsinks = q.new_empty(0)
    if sinks is not None:
        share = torch.exp(sinks.to(s.dtype)[None, :, None] - torch.where(found == -torch.inf, 0.0, found))
        dsinks = (share * delta.squeeze(-1)).sum((0, 2))
    return (
        torch.matmul(ds, every_k.abs()),
        summed(torch.matmul(ds.transpose(-1, -2), q.abs())),
        summed(torch.matmul(p.transpose(-1, -2), size)),
        dsinks,
    )
