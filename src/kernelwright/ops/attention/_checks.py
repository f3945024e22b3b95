# SPDX-License-Identifier: MIT
"""What calls of attention are refused for, by the implementations and their fakes alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._tensors import require_dtype

if TYPE_CHECKING:
    from torch import Tensor

MOST_D = 256
FLOATS = ("float16", "bfloat16", "float32", "float64")

IN_PYTHON = "its kernels take longer than Python does; steps of a decoder, which do not, are captured in CUDA graphs"
"""Why torch's dispatcher has no kernel of these operators in C."""


def _floats() -> tuple[Any, ...]:
    import torch

    return tuple(getattr(torch, name) for name in FLOATS)


def require_place(op: str, name: str, tensor: Tensor, q: Tensor) -> None:
    if tensor.device != q.device:
        raise InvalidArgument(f"{op}: {name} is on {tensor.device}, but q is on {q.device}; move one of them (.to())")


def check_heads(
    op: str, q: Tensor, k: Tensor, v: Tensor, dims: int, heads_at: int, types: tuple[Any, ...] | None = None
) -> None:
    """q, k and v go together; `heads_at` is the dimension of their heads, `types` what q may be of, if not floats."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != dims:
            form = "[batch, heads, rows, d]" if dims == 4 else "[rows, heads, d]"
            raise InvalidArgument(f"{op}: {name} has shape {tuple(tensor.shape)}, but must have dimensions {form}")
        require_dtype(op, name, tensor, (types or _floats()) if name == "q" else (q.dtype,))
        require_place(op, name, tensor, q)
    if k.shape[:-1] != v.shape[:-1] or (dims == 4 and k.shape[0] != q.shape[0]):
        raise InvalidArgument(
            f"{op}: q has shape {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}: k and v must have as many "
            "rows and heads as each other, and as many batches as q"
        )
    if k.shape[-1] != q.shape[-1]:
        raise InvalidArgument(f"{op}: rows of k have {k.shape[-1]} elements, but those of q {q.shape[-1]}")
    for name, size in (("q", q.shape[-1]), ("v", v.shape[-1])):
        if size < 1 or size > MOST_D:
            raise InvalidArgument(f"{op}: rows of {name} have {size} elements; 1 to {MOST_D} are supported")
    heads, kv_heads = q.shape[heads_at], k.shape[heads_at]
    if (kv_heads == 0) != (heads == 0) or (kv_heads and heads % kv_heads):
        raise InvalidArgument(f"{op}: q has {heads} heads, which must be a multiple of k's {kv_heads}")


def check_options(op: str, scale: float, window_left: int, window_right: int, softcap: float) -> None:
    for name, size in (("window_left", window_left), ("window_right", window_right)):
        if size < -1:
            raise InvalidArgument(f"{op}: {name} is {size}, but must be -1 (all keys) or more")
    if not -1e30 < scale < 1e30:
        raise InvalidArgument(f"{op}: scale is {scale}, but must be a finite number")
    if not 0.0 <= softcap < 1e30:
        raise InvalidArgument(f"{op}: softcap is {softcap}, but must be 0 (none) or a positive number")


def check_per_head(op: str, q: Tensor, sinks: Tensor | None, slopes: Tensor | None, batch: Any, heads: Any) -> None:
    import torch

    if sinks is not None:
        require_dtype(op, "sinks", sinks, tuple(dict.fromkeys((torch.float32, q.dtype, torch.float64))))
        require_place(op, "sinks", sinks, q)
        if sinks.shape != (heads,):
            raise InvalidArgument(f"{op}: sinks has shape {tuple(sinks.shape)}, but must have ({heads},)")
    if slopes is not None:
        require_dtype(op, "alibi_slopes", slopes, tuple(dict.fromkeys((torch.float32, q.dtype, torch.float64))))
        require_place(op, "alibi_slopes", slopes, q)
        if slopes.shape not in ((heads,), (batch, heads)):
            raise InvalidArgument(
                f"{op}: alibi_slopes has shape {tuple(slopes.shape)}, but must have ({heads},) or ({batch}, {heads})"
            )


def check_scores(op: str, q: Tensor, k: Tensor, mask: Tensor | None, bias: Tensor | None) -> None:
    import torch

    full = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    for name, tensor in (("mask", mask), ("bias", bias)):
        if tensor is None:
            continue
        require_place(op, name, tensor, q)
        fits = tensor.dim() <= 4 and all(
            size in (1, whole) for size, whole in zip(reversed(tensor.shape), reversed(full), strict=False)
        )
        if not fits:
            raise InvalidArgument(f"{op}: {name} has shape {tuple(tensor.shape)}, which does not broadcast to {full}")
    if mask is not None:
        require_dtype(op, "mask", mask, (torch.bool, torch.uint8, torch.float64))
    if bias is not None:
        require_dtype(op, "bias", bias, tuple(dict.fromkeys((q.dtype, torch.float32))))
