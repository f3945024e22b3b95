# SPDX-License-Identifier: MIT
"""How the bench's model attends: by this package's kernels or by torch's, to see what attention itself is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from kernelwright import attention, attention_decode, rope

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright.bench._shapes import Shape

    Layer = tuple[Tensor, Tensor]
    Attend = Callable[[Tensor, Tensor, Tensor, Layer], Tensor]


@dataclass
class Cache:
    """Keys and values of every layer and how many rows are filled, on the device: no step waits for the CPU."""

    layers: list[Layer]
    lengths: Tensor  # [batch], int32
    cos: Tensor  # [longest, head / 2], with sin: how far each position is turned
    sin: Tensor
    empty: bool = True

    @classmethod
    def of(cls, shape: Shape, batch: int, longest: int, device: torch.device) -> Cache:
        longest += -longest % 16  # else torch's attention copies its mask to make it so, in each layer
        size = (batch, shape.kv_heads, longest, shape.head)
        rows = torch.zeros(2, shape.layers, *size, dtype=torch.bfloat16, device=device)
        speeds = 1e-4 ** (torch.arange(0, shape.head, 2, device=device) / shape.head)
        angles = torch.arange(longest, device=device)[:, None] * speeds
        lengths = torch.zeros(batch, dtype=torch.int32, device=device)
        layers = list(zip(rows[0], rows[1], strict=True))
        return cls(layers, lengths, angles.cos().bfloat16(), angles.sin().bfloat16())

    def restart(self) -> None:
        self.lengths.zero_()
        self.empty = True

    def advance(self, count: int) -> None:
        self.lengths += count
        self.empty = False


def by_kernels(count: int, cache: Cache) -> Attend:
    """Rotary positions, the new rows' place in the cache and attention: one launch a layer, three for a prompt."""
    turn = {"cos": cache.cos, "sin": cache.sin, "interleaved": True}

    def with_cache(q: Tensor, k: Tensor, v: Tensor, past: Layer) -> Tensor:
        seen: Any = attention_decode(q, *past, cache.lengths, k_new=k, v_new=v, causal=True, **turn)
        return seen  # no pair, which it would be with return_lse

    def of_prompt(q: Tensor, k: Tensor, v: Tensor, past: Layer) -> Tensor:
        q, k = rope(q, k=k, **turn)
        for cached, new in zip(past, (k, v), strict=True):
            cached[:, :, :count].copy_(new)
        seen: Any = attention(q, k, v, causal=True)
        return seen

    return of_prompt if cache.empty and count > 1 else with_cache


def by_torch(count: int, cache: Cache) -> Attend:
    """The same of torch's operators: rotation as complex numbers, two copies, attention with a mask."""
    keys, _ = cache.layers[0]
    rows = cache.lengths[0] + torch.arange(count, device=keys.device)
    hidden = torch.arange(keys.shape[2], device=keys.device) > rows[:, None]
    mask = torch.zeros(hidden.shape, dtype=keys.dtype, device=keys.device).masked_fill_(hidden, -torch.inf)
    turn = torch.complex(cache.cos.float(), cache.sin.float())[rows]

    def turned(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)

    def attend(q: Tensor, k: Tensor, v: Tensor, past: Layer) -> Tensor:
        keys, values = past
        keys.index_copy_(2, rows, turned(k))
        values.index_copy_(2, rows, v)
        # Heads that share keys are more rows of one head's query: no key is copied for each of them.
        groups = q.shape[1] // k.shape[1]
        grouped = turned(q).unflatten(1, (-1, groups)).flatten(2, 3)
        seen = scaled_dot_product_attention(grouped, keys, values, attn_mask=mask.repeat(groups, 1))
        return seen.unflatten(2, (groups, count)).flatten(1, 2)

    return attend


ATTENTIONS = {"kernelwright": by_kernels, "torch": by_torch}
