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

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor], rows: Tensor, mask: Tensor, turn: Tensor) -> Tensor:
        y = self.norm1(x)
        q, k = (_turned(self._heads(projection(y)), turn) for projection in (self.q, self.k))
        keys, values = past
        keys.index_copy_(2, rows, k)
        values.index_copy_(2, rows, self._heads(self.v(y)))
        groups = self.shape.heads // self.shape.kv_heads
        keys, values = (t.repeat_interleave(groups, 1) for t in (keys, values))
        seen = scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.o(seen.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        result: Tensor = x + self.down(self.act(self.gate(y), self.up(y)))
        return result

    def _heads(self, y: Tensor) -> Tensor:
        return y.unflatten(-1, (-1, self.shape.head)).transpose(1, 2)


def _turned(x: Tensor, turn: Tensor) -> Tensor:
    """Rotary positions: halves of a head as real and imaginary parts."""
    real, imaginary = x.float().chunk(2, -1)
    cos, sin = turn.unbind(-1)
    return torch.cat((real * cos - imaginary * sin, real * sin + imaginary * cos), -1).to(x.dtype)


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
        size = (batch, self.shape.kv_heads, longest, self.shape.head)
        empty = torch.zeros(2, self.shape.layers, *size, dtype=torch.bfloat16, device=device)
        return Cache(list(zip(empty[0], empty[1], strict=True)), torch.zeros((), dtype=torch.long, device=device))

    def forward(self, ids: Tensor, cache: Cache) -> Tensor:
        """The logits after the last of these tokens; the cache goes on by as many."""
        longest = cache.layers[0][0].shape[2]
        rows = cache.position + torch.arange(ids.shape[1], device=ids.device)
        mask = torch.arange(longest, device=ids.device) <= rows[:, None]
        speeds = 1e-4 ** (torch.arange(0, self.shape.head, 2, device=ids.device) / self.shape.head)
        angles = rows[:, None] * speeds
        turn = torch.stack((angles.cos(), angles.sin()), -1)
        x = self.embed(ids)
        for block, past in zip(self.blocks, cache.layers, strict=True):
            x = block(x, past, rows, mask, turn)
        cache.position += ids.shape[1]
        logits: Tensor = self.head(self.norm(x[:, -1]))
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
