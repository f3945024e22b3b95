# SPDX-License-Identifier: MIT
"""A decoder of the Llama kind with random weights, and how it takes a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.bench._attention import ATTENTIONS, Cache
from kernelwright.nn.activation import SwiGLU
from kernelwright.nn.norm import RMSNorm
from kernelwright.nn.quantize import quantize_

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.bench._attention import Attend, Layer
    from kernelwright.bench._shapes import Shape


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

    def forward(self, branch: Tensor, stream: Tensor, past: Layer, attend: Attend) -> Tensor:
        """What is to be added to the stream next, as `branch` is: by the norm that comes after."""
        y = self.norm1(branch, stream, inplace=True)
        q, k, v = (of(y).unflatten(-1, (-1, self.shape.head)).transpose(1, 2) for of in (self.q, self.k, self.v))
        seen = attend(q, k, v, past).transpose(1, 2).flatten(2)
        y = self.norm2(self.o(seen), stream, inplace=True)
        result: Tensor = self.down(self.act(self.gate(y), self.up(y)))
        return result


class Model(torch.nn.Module):
    """Embedding, blocks, norm and output layer; made block by block, each quantized before the next is made."""

    def __init__(self, shape: Shape, device: str, *, quantized: bool, attention: str = "kernelwright") -> None:
        super().__init__()
        self.shape, self.attention = shape, attention
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
        return Cache.of(self.shape, batch, longest, self.embed.weight.device)

    def forward(self, ids: Tensor, cache: Cache) -> Tensor:
        """The logits after the last of these tokens; the cache goes on by as many."""
        attend = ATTENTIONS[self.attention](ids.shape[1], cache)
        stream = self.embed(ids)
        branch = torch.zeros_like(stream)
        for block, past in zip(self.blocks, cache.layers, strict=True):
            branch = block(branch, stream, past, attend)
        cache.advance(ids.shape[1])
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
