# SPDX-License-Identifier: MIT
"""attention_fp8: what is refused, the definition in plain torch, calls of the C function."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._handles import handles
from kernelwright.ops._tensors import placement, refuse_freed, require_dtype, without_autocast
from kernelwright.ops.attention import _checks as checks
from kernelwright.ops.attention import _reference as reference
from kernelwright.ops.attention._launch import adjacent

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

NAME = "attention_fp8"
_RESULTS = ("bfloat16", "float16", "float32", "float64")


# --- what is refused ------------------------------------------------------------


def check(
    q: Tensor, k: Tensor, v: Tensor, q_scale: Tensor | None, k_scale: Tensor | None, v_scale: Tensor | None,
    scale: float, causal: bool, window_left: int, window_right: int, dtype: Any,  # noqa: ARG001
) -> None:  # fmt: skip
    import torch

    checks.check_heads(NAME, q, k, v, 4, 1, (torch.float8_e4m3fn,))
    checks.check_options(NAME, scale, window_left, window_right, 0.0)
    for name, factor, of in (("q_scale", q_scale, q), ("k_scale", k_scale, k), ("v_scale", v_scale, v)):
        if factor is None:
            continue
        require_dtype(NAME, name, factor, (torch.float32,))
        checks.require_place(NAME, name, factor, q)
        fits = factor.dim() <= 2 and all(
            size in (1, whole) for size, whole in zip(reversed(factor.shape), reversed(of.shape[:2]), strict=False)
        )
        if not fits:
            raise InvalidArgument(
                f"{NAME}: {name} has shape {tuple(factor.shape)}, but must be one number, [heads] or [batch, heads] of "
                f"{name[0]}, {tuple(of.shape[:2])}"
            )
    if dtype not in tuple(getattr(torch, name) for name in _RESULTS):
        raise InvalidArgument(
            f"{NAME}: dtype is {dtype}, but must be torch.bfloat16, torch.float16, torch.float32 or torch.float64"
        )


# --- in plain torch ----------------------------------------------------------------


def _of_heads(factor: Tensor | None, of: Tensor, heads: int) -> Tensor | None:
    """[batch, heads, 1, 1], for each head of q."""
    if factor is None:
        return None
    return reference.every_head(factor.expand(of.shape[:2]), heads)[..., None, None]


def factors(q: Tensor, k: Tensor, q_scale: Tensor | None, k_scale: Tensor | None, scale: float) -> Tensor:
    """What products are multiplied by, in float32 as kernels have it."""
    import torch

    made = torch.ones((), dtype=torch.float32, device=q.device)
    for factor in (_of_heads(q_scale, q, q.shape[1]), _of_heads(k_scale, k, q.shape[1])):
        made = made if factor is None else made * factor.to(torch.float32)
    return made * torch.tensor(scale, dtype=torch.float32)


def _softmax(s: Tensor, q: Tensor, k: Tensor, options: reference.Options) -> tuple[Tensor, Tensor]:
    import torch

    seen = reference.visible(q.shape[2], k.shape[2], None, options, q.device)
    return reference.softmax(s.masked_fill(~seen, -torch.inf), None)


def attention(
    q: Tensor, k: Tensor, v: Tensor, q_scale: Tensor | None, k_scale: Tensor | None, v_scale: Tensor | None,
    scale: float, causal: bool, window_left: int, window_right: int, dtype: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    import torch

    wide = torch.float64 if torch.float64 in (q.dtype, dtype) else torch.float32
    options, heads = (1.0, causal, window_left, window_right, 0.0), q.shape[1]
    of_values = _of_heads(v_scale, v, heads)
    with without_autocast(q.device):
        every_k, every_v = (reference.every_head(t.to(wide), heads) for t in (k, v))
        s = torch.matmul(q.to(wide), every_k.transpose(-1, -2)) * factors(q, k, q_scale, k_scale, scale).to(wide)
        p, lse = _softmax(s, q, k, options)
        out = torch.matmul(p, every_v)
        out = out if of_values is None else out * of_values.to(wide)
    return reference.as_heads(out, dtype), lse.contiguous()


def terms(
    q: Tensor, k: Tensor, v: Tensor, q_scale: Tensor | None, k_scale: Tensor | None, v_scale: Tensor | None,
    scale: float, causal: bool, window_left: int, window_right: int, dtype: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Scores err by up to 2^-10 of the sizes that they are sums of, as tensor cores sum e4m3, and shares by e to the
    power of twice that. A share is rounded to e4m3 by up to 2^-4 of it, or, of small ones, 2^-18 of the largest; sums
    of results lose bits with every 128 keys. Tolerances are 2^-10 for logarithms and float32, 2^-4 for 16 bits."""
    import torch

    options, heads = (1.0, causal, window_left, window_right, 0.0), q.shape[1]
    every_k, every_v = (reference.every_head(t.abs(), heads) for t in (k, v))
    by = factors(q, k, q_scale, k_scale, scale).abs().to(q.dtype)
    seen = reference.visible(q.shape[2], k.shape[2], None, options, q.device)
    sizes = torch.matmul(q.abs(), every_k.transpose(-1, -2)) * by
    most = sizes.masked_fill(~seen, 0.0).amax(-1) if k.shape[2] else sizes.sum(-1)
    out, lse = attention(q, k, v.abs(), q_scale, k_scale, v_scale, scale, causal, window_left, window_right, q.dtype)
    if dtype not in (torch.bfloat16, torch.float16):
        return out.abs() * (2.0**-6 * (1 + most.unsqueeze(-1))), most + 2.0**-8 * (1.0 + lse.abs())
    apart = torch.exp((most * 2.0**-9).clamp(max=60.0)).unsqueeze(-1) - 1.0
    small = torch.matmul(seen.to(q.dtype), every_v) * 2.0**-14
    of_values = _of_heads(v_scale, v, heads)
    small = small if of_values is None else small * of_values.abs()
    grown = 1.0 + 16.0 * apart + 2.0**-6 * (k.shape[2] / 128)
    return out.abs() * grown + small, most + 2.0**-8 * (1.0 + lse.abs())


# --- by kernels ----------------------------------------------------------------------


def by_attention(
    q: Tensor, k: Tensor, v: Tensor, q_scale: Tensor | None, k_scale: Tensor | None, v_scale: Tensor | None,
    scale: float, causal: bool, window_left: int, window_right: int, dtype: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """By the operator for 16 bits, which have every number of e4m3; q takes the factors of scores, and is rounded."""
    import torch

    heads = q.shape[1]
    of_scores, of_values = factors(q, k, q_scale, k_scale, scale), _of_heads(v_scale, v, heads)
    out, lse = calls.attention.default(
        (q.to(torch.float32) * of_scores).to(dtype), k.to(dtype), v.to(dtype), None, None, None, None, 1.0, causal,
        window_left, window_right, 0.0, False,
    )  # fmt: skip
    return out if of_values is None else reference.as_heads(out * of_values, dtype), lse


def _decider(library: Library) -> Callable[..., bool]:
    """fits(device, sizes…, dtype, alignment): whether the library's kernels are made for such a call."""

    @lru_cache(maxsize=1024)
    def fits(device: int, *numbers: int) -> bool:
        yes = ctypes.c_int32()
        library.call("kw_attention_fp8_fits", device, *numbers, ctypes.addressof(yes))
        return bool(yes.value)

    return fits


def _alignment(*tensors: Tensor) -> int:
    """16 where boxes can be described of all, else 1."""
    together = 0
    for tensor in tensors:
        together |= tensor.data_ptr()
        for size, stride in zip(tensor.shape[:3], tensor.stride()[:3], strict=True):
            together |= stride if size > 1 else 0
    return 1 if together % 16 else 16


def bind(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    import torch

    place, fits = placement(library, key), _decider(library)
    codes = {getattr(torch, name): library.constants[f"KW_{name.upper()}"] for name in _RESULTS[:3]}
    at: Callable[[Tensor], int] | None = None

    def run(
        q: Tensor, k: Tensor, v: Tensor, q_scale: Tensor | None, k_scale: Tensor | None, v_scale: Tensor | None,
        scale: float, causal: bool, window_left: int, window_right: int, dtype: Any,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        nonlocal at
        check(q, k, v, q_scale, k_scale, v_scale, scale, causal, window_left, window_right, dtype)
        refuse_freed(NAME, q=q, k=k, v=v, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale)
        options = scale, causal, window_left, window_right
        if dtype == torch.float64:
            return attention(q, k, v, q_scale, k_scale, v_scale, *options, dtype)
        device, stream = place(q)
        q, k, v = map(adjacent, (q, k, v))
        sizes = *q.shape[:3], k.shape[2], q.shape[3], v.shape[3]
        if q.is_cuda and not fits(device, *sizes, codes[dtype], _alignment(q, k, v)):
            if dtype == torch.float32:
                return attention(q, k, v, q_scale, k_scale, v_scale, *options, dtype)
            return by_attention(q, k, v, q_scale, k_scale, v_scale, *options, dtype)
        at = at or handles(library)
        batch, heads, queries, _ = q.shape
        out = q.new_empty((batch, queries, heads, v.shape[3]), dtype=dtype).transpose(1, 2)
        lse = q.new_empty(q.shape[:3], dtype=torch.float32)
        pairs = zip((q_scale, k_scale, v_scale), (q, k, v), strict=True)
        scales = [None if factor is None else factor.expand(of.shape[:2]) for factor, of in pairs]
        library.call(
            "kw_attention_fp8_tensors", stream, at(out), at(lse), at(q), at(k), at(v),
            *(None if factor is None else at(factor) for factor in scales), causal, window_left, window_right, scale,
        )  # fmt: skip
        return out, lse

    return run
