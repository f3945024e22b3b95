# SPDX-License-Identifier: MIT
"""The models that can be measured, by name, and how many bytes each takes. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

WAYS = {
    "nf4": "NF4, double-quantized, computed in bfloat16",
    "bf16": "torch's own linear layers in bfloat16",
    "disabled": "the same codes on the path without kernels (KERNELWRIGHT_DISABLE=1)",
}
QUANTIZED = ("nf4", "disabled")
ATTENTIONS = ("kernelwright", "torch")  # whose: rotary positions, the cache's new rows, attention


@dataclass(frozen=True)
class Shape:
    """What a decoder of the Llama kind consists of."""

    width: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int

    @property
    def head(self) -> int:
        return self.width // self.heads

    def of_heads(self, count: int) -> int:
        return count * self.head

    def linear_elements(self) -> int:
        """In the layers that are quantized."""
        attention = 2 * self.width * (self.width + self.of_heads(self.kv_heads))
        return self.layers * (attention + 3 * self.width * self.inner)

    def bytes(self, way: str, batch: int, tokens: int) -> int:
        """About, with keys and values; what is computed on the way comes on top."""
        bits = 4.13 if way in QUANTIZED else 16
        whole = 2 * self.vocabulary * self.width * 2
        cache = 2 * self.layers * batch * tokens * self.of_heads(self.kv_heads) * 2
        # Without kernels one weight at a time is held in float32, beside its codes as 8 bytes each.
        spare = 3 * self.width * self.inner * 8 if way == "disabled" else 0
        return int(self.linear_elements() * bits / 8) + whole + cache + spare


SHAPES = {
    "llama-8b-like": Shape(4096, 14336, 32, 32, 8, 128256),
    "llama-1b-like": Shape(2048, 8192, 16, 32, 8, 128256),
    "llama-100m-like": Shape(1024, 2816, 8, 16, 4, 8192),
    "llama-tiny-like": Shape(256, 768, 2, 4, 2, 512),
}
