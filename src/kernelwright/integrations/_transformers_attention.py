# SPDX-License-Identifier: MIT
"""kernelwright's attention as transformers calls it. Importing this file imports torch and transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from kernelwright import functional
from kernelwright.errors import Unsupported
from kernelwright.ops.attention.attention import attention
from kernelwright.ops.attention.attention_varlen import attention_varlen

if TYPE_CHECKING:
    from torch import Tensor

NAME = "kernelwright"
_VARLEN = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")


def forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    cache: Any = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What a model's attention layer calls: [batch, heads, rows, d] to [batch, rows, heads, d_v]. `s_aux` are sinks."""
    if dropout > 0:
        raise Unsupported(
            f"attn_implementation={NAME!r} has no dropout, but this layer asks for {dropout}: set attention_dropout=0 "
            "in the model's configuration, call model.eval(), or take attn_implementation='sdpa'"
        )
    if cache is not None and hasattr(cache, "update"):  # continuous batching: keys and values lie in pages
        key, value = cache.update(key_states=key, value_states=value, layer_idx=module.layer_idx, kwargs=kwargs)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    sinks = None if s_aux is None else s_aux.float()
    query, key, value = _alike(module, query, key, value)
    options = {"scale": scaling, "softcap": softcap or 0.0, "sinks": sinks}
    if all(kwargs.get(name) is not None for name in _VARLEN):
        window = (sliding_window - 1, 0 if causal else sliding_window - 1) if sliding_window else (-1, -1)
        return _packed(query, key, value, causal, window, kwargs, options), None
    rows = query.shape[2]
    causal = causal and attention_mask is None and rows > 1
    if causal and key.shape[2] > rows:  # a static cache with nothing in it: what follows the rows was never written
        key, value = key[:, :, :rows], value[:, :, :rows]
    mask = attention_mask
    if position_bias is not None:
        mask = _with_bias(mask, position_bias, causal, query, key)
        causal = False
    if sinks is None and not softcap:
        return _usual(query, key, value, mask, causal, scaling).transpose(1, 2), None
    out: Any = attention(query, key, value, mask=mask, causal=causal, **options)  # type: ignore[arg-type]
    return out.transpose(1, 2), None


def _usual(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """By torch's function where kernels do not serve it."""
    return functional.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )


def _alike(module: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Norms kept in float32, as peft keeps them, leave q and k in that; products are in the type of the values."""
    if torch.is_autocast_enabled(tensors[0].device.type):
        return tuple(functional.autocast(*tensors))
    q, _, v = tensors
    if q.dtype == v.dtype == tensors[1].dtype:
        return tensors
    dtype = getattr(module.config, "dtype", None) or v.dtype
    return tuple(t.to(dtype) for t in tensors)


def _packed(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, window: tuple[int, int], kwargs: Any, options: Any
) -> Tensor:
    """Sequences one after the other in one row of the batch, as collators without padding make them."""
    if q.shape[0] != 1:
        raise Unsupported(
            f"attn_implementation={NAME!r}: cu_seq_lens_q is given with a batch of {q.shape[0]}; packed sequences are "
            "one row of a batch"
        )
    starts = [kwargs[name].to(torch.int32) for name in _VARLEN[:2]]
    most = [int(kwargs[name]) for name in _VARLEN[2:]]
    rows = [t[0].transpose(0, 1) for t in (q, k, v)]
    out: Any = attention_varlen(*rows, *starts, *most, causal=causal, window=window, **options)
    return out.unsqueeze(0)


def _with_bias(mask: Tensor | None, bias: Tensor, causal: bool, q: Tensor, k: Tensor) -> Tensor:
    """One mask that is added to the scores."""
    lowest = torch.finfo(q.dtype).min
    if causal:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    if mask is None:
        return bias.to(q.dtype)
    added = torch.where(mask, bias, lowest) if mask.dtype == torch.bool else bias + mask
    return added.to(q.dtype)


def mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """The mask for `forward`: booleans, and None where its arguments say it. Without one of our name transformers gives
    no mask at all, and padding would be looked at."""
    found: Tensor | None = sdpa_mask(*args, **kwargs)
    return found


def register() -> None:
    AttentionInterface.register(NAME, forward)
    AttentionMaskInterface.register(NAME, mask)
