# SPDX-License-Identifier: MIT
"""Puts forward passes of kernelwright into a model's modules, peft's among them. Importing this file imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.integrations import _lora, _transformers_rope
from kernelwright.nn._replace import Replaced as Optimized
from kernelwright.nn._replace import replace

if TYPE_CHECKING:
    from kernelwright.nn._replace import Found

__all__ = ["Optimized", "optimize"]


def _other(module: Any) -> Found | None:
    return ("LoRA layer", _lora.forward, None) if _lora.is_lora(module) else _transformers_rope.found(module)


def optimize(model: Any) -> Optimized:
    """The modules of a model that compute what kernelwright has operators for, by their names. Dense weights stay where
    they are: q, k and v as one such product were no faster, and gate and up slower for a single token on a CPU."""
    return replace("optimize", model, _other, (_lora.forward, _transformers_rope.forward), merge=True, dense=False)
