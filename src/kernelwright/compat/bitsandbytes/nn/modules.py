# SPDX-License-Identifier: MIT
"""bitsandbytes.nn.modules."""

from __future__ import annotations

from kernelwright.compat._covered import refuse_others
from kernelwright.compat.bitsandbytes.nn._embedding import Embedding, StableEmbedding
from kernelwright.compat.bitsandbytes.nn._int8 import maybe_rearrange_weight
from kernelwright.compat.bitsandbytes.nn._outliers import OutlierAwareLinear
from kernelwright.nn.embedding_4bit import Embedding4bit, EmbeddingFP4, EmbeddingNF4
from kernelwright.nn.embedding_8bit import Embedding8bit
from kernelwright.nn.linear_4bit import Linear4bit, LinearFP4, LinearNF4
from kernelwright.nn.linear_8bit import Linear8bitLt
from kernelwright.nn.params_4bit import Params4bit
from kernelwright.nn.params_8bit import Int8Params

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
    "maybe_rearrange_weight",
]

_WHY = {"fix_4bit_weight_quant_state_from_module": "layers find the state of a weight that FSDP replaced by themselves"}
__getattr__ = refuse_others(__name__, __all__, "What is not there, and why: docs/bitsandbytes.md", _WHY)
