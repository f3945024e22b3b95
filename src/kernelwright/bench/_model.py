# SPDX-License-Identifier: MIT
"""A decoder of the Llama kind with random weights, and how it takes a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from kernelwright.nn.activation import SwiGLU
from kernelwright.nn.norm import RMSNorm
from kernelwright.nn.quantize import quantize_

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.bench._shapes import Shape


@dataclass
class Cache:
    """Keys and values of every layer, and the position of the next token on the device: no step waits for the CPU."""

    layers: list[tuple[Tensor, Tensor]]
    position: Tensor


class Step:
    """What all layers share while some tokens pass: their positions, what they may see, and how far each is turned."""

    def __init__(self, count: int, cache: Cache, shape: Shape) -> None:
        keys, _ = cache.layers[0]
        device, longest = keys.device, keys.shape[2]
        self.rows = cache.position + torch.arange(count, device=device)
        seen = torch.arange(longest, device=device) <= self.rows[:, None]
        mask = torch.zeros(seen.shape, dtype=keys.dtype, device=device).masked_fill_(~seen, -torch.inf)
        self.mask = mask.repeat(shape.heads // shape.kv_heads, 1)
        speeds = 1e-4 ** (torch.arange(0, shape.head, 2, device=device) / shape.head)
        angles = self.rows[:, None, None] * speeds
        self._turn = torch.polar(torch.ones_like(angles), angles)

    def turned(self, x: Tensor) -> Tensor:
        """Rotary positions: neighbours within a head as real and imaginary parts."""
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * self._turn).flatten(-2).to(x.dtype)


class Block(torch.nn.Module):
    """One layer: attention with grouped heads and a gated feed-forward part, each behind a norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, self.shape = shape.width, shape
        linear = {"bias": False}
        self.norm1, self.norm2 = RMSNorm(width, eps=1e-5), RMSNorm(width, eps=1e-5)
        self.q = torch.nn.Linear(width, width, **linear)
        self.k, self.v = (torch.nn.Linear(width, shape.of_heads(shape.kv_heads), **linear) for _ in range(2))
        self.o = torch.nn.Linear(width, width, **linear)
        self.gate, self.up = (torch.nn.Linear(width, shape.inner, **linear) for _ in range(2))
        self.down = torch.nn.Linear(shape.inner, width, **linear)
        self.act = SwiGLU()

    def forward(self, branch: Tensor, stream: Tensor, past: tuple[Tensor, Tensor], step: Step) -> Tensor:
        """What is to be added to the stream next, as `branch` is: by the norm that comes after."""
        shape = self.shape
        y = self.norm1(branch, stream, inplace=True)
        both = torch.cat((self.q(y), self.k(y)), -1).unflatten(-1, (-1, shape.head))
        q, k = step.turned(both).transpose(1, 2).split((shape.heads, shape.kv_heads), 1)
        keys, values = past
        keys.index_copy_(2, step.rows, k)
        values.index_copy_(2, step.rows, self.v(y).unflatten(-1, (-1, shape.head)).transpose(1, 2))
        # Heads that share keys are more rows of one head's query: no key is copied for each of them.
        groups, count = shape.heads // shape.kv_heads, len(step.rows)
        rows = q.unflatten(1, (-1, groups)).flatten(2, 3)
        seen = scaled_dot_product_attention(rows, keys, values, attn_mask=step.mask)
        seen = seen.unflatten(2, (groups, count)).flatten(1, 2).transpose(1, 2).flatten(2)
        y = self.norm2(self.o(seen), stream, inplace=True)
        result: Tensor = self.down(self.act(self.gate(y), self.up(y)))
        return result


class Model(torch.nn.Module):
    """Embedding, blocks, norm and output layer; made block by block, each quantized before the next is made."""

    def __init__(self, shape: Shape, device: str, *, quantized: bool) -> None:
        super().__init__()
        self.shape = shape
        self.embed = _random(torch.nn.Embedding(shape.vocabulary, shape.width, device="meta"), device)
        self.blocks = torch.nn.ModuleList()
        for _ in range(shape.layers):
            with torch.device("meta"):
                block = Block(shape)
            block = _random(block, device)
            if quantized:
                quantize_(block, compute_dtype=torch.bfloat16, show_progress=False)
            self.blocks.append(block)
        self.norm = _random(RMSNorm(shape.width, eps=1e-5, device="meta"), device)
        self.head = _random(torch.nn.Linear(shape.width, shape.vocabulary, bias=False, device="meta"), device)

    def cache(self, batch: int, longest: int) -> Cache:
        device = self.embed.weight.device
        longest += -longest % 16  # else attention copies its mask to make it so, in each layer
        size = (batch, self.shape.kv_heads, longest, self.shape.head)
        empty = torch.zeros(2, self.shape.layers, *size, dtype=torch.bfloat16, device=device)
        return Cache(list(zip(empty[0], empty[1], strict=True)), torch.zeros((), dtype=torch.long, device=device))

    def forward(self, ids: Tensor, cache: Cache) -> Tensor:
        """The logits after the last of these tokens; the cache goes on by as many."""
        step = Step(ids.shape[1], cache, self.shape)
        stream = self.embed(ids)
        branch = torch.zeros_like(stream)
        for block, past in zip(self.blocks, cache.layers, strict=True):
            branch = block(branch, stream, past, step)
        cache.position += ids.shape[1]
        logits: Tensor = self.head(self.norm(branch[:, -1], stream[:, -1], inplace=True))
        return logits


def _random(module: Any, device: str) -> Any:
    """On the device, in bfloat16, with weights that keep what passes through them about as large as it was."""
    module = module.to(torch.bfloat16).to_empty(device=device)
    for weight in module.parameters():
        if weight.dim() == 1:
            weight.data.fill_(1)
        else:
            weight.data.normal_(0, weight.shape[-1] ** -0.5)
    return module.requires_grad_(False).eval()
