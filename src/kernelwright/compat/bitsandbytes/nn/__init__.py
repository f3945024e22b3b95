# SPDX-License-Identifier: MIT
"""bitsandbytes.nn."""

from __future__ import annotations

from kernelwright.compat._covered import refuse_others
from kernelwright.compat.bitsandbytes.nn import modules, parametrize
from kernelwright.compat.bitsandbytes.nn.modules import (
    Embedding,
    Embedding4bit,
    Embedding8bit,
    EmbeddingFP4,
    EmbeddingNF4,
    Int8Params,
    Linear4bit,
    Linear8bitLt,
    LinearFP4,
    LinearNF4,
    OutlierAwareLinear,
    Params4bit,
    StableEmbedding,
)

__all__ = [
    "Embedding",
    "Embedding4bit",
    "Embedding8bit",
    "EmbeddingFP4",
    "EmbeddingNF4",
    "Int8Params",
    "Linear4bit",
    "Linear8bitLt",
    "LinearFP4",
    "LinearNF4",
    "OutlierAwareLinear",
    "Params4bit",
    "StableEmbedding",
    "modules",
    "parametrize",
]

__getattr__ = refuse_others(__name__, __all__, "What is not there, and why: docs/bitsandbytes.md")
