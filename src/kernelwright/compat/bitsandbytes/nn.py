# SPDX-License-Identifier: MIT
"""bitsandbytes.nn, as far as it is about 4 bits."""

from __future__ import annotations

from kernelwright.compat._covered import refuse_others
from kernelwright.nn.embedding_4bit import Embedding4bit, EmbeddingFP4, EmbeddingNF4
from kernelwright.nn.linear_4bit import Linear4bit, LinearFP4, LinearNF4
from kernelwright.nn.params_4bit import Params4bit

__all__ = ["Embedding4bit", "EmbeddingFP4", "EmbeddingNF4", "Linear4bit", "LinearFP4", "LinearNF4", "Params4bit"]

__getattr__ = refuse_others(
    __name__, __all__, "Layers in 8 bits and stable embeddings are bitsandbytes' own: install it for them"
)
