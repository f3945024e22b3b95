# SPDX-License-Identifier: MIT
"""A model's layers with the activations that follow them in one pass."""

from __future__ import annotations

from typing import Any

import torch

from kernelwright import _environment
from kernelwright.errors import InvalidArgument
from kernelwright.nn import _replace

__all__ = ["fuse_", "unfuse_"]


def fuse_(model: torch.nn.Module, *, merge: bool = True) -> _replace.Replaced:
    """Puts fused forward passes into a model's modules, in place, and returns what it changed.

    Found are gated MLPs (Llama, Qwen, Mistral, Gemma, Phi-3), a linear layer and its activation (GPT-2, BERT, Phi,
    CLIP, torch.nn.Sequential) and norms; layers in 4 bits and ternary ones too. A module of another library
    is changed if its own forward pass gives the same for random numbers, and else left, with the reason. Names, classes
    and state dicts stay as they are, so saving, peft and Trainer work as before; where an adapter is put in a layer's
    place later, that module goes its own way.

    merge   brings the weights of gate and up of a module together in memory, one module at a time, so that a product
            without gradients by them is one. They stay two parameters. A layer that trains is two products as before.
            Of layers in 4 bits and packed ternary ones also those of q, k and v of an attention module; norms before
            ternary layers then become one pass with the quantization of rows

    With KERNELWRIGHT_DISABLE it changes nothing.

    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
    >>> print(fuse_(model))
    >>> unfuse_(model)
    """
    if _environment.read().disable:
        return _replace.Replaced()
    return _replace.replace("fuse_", model, merge=merge)


def unfuse_(model: torch.nn.Module) -> torch.nn.Module:
    """Gives all modules that fuse_ changed their own forward passes and their weights' own memory back; returns the
    model."""
    if not isinstance(model, torch.nn.Module):
        raise InvalidArgument(f"unfuse_: the model is a {type(model).__name__}, but must be a torch.nn.Module")
    module: Any
    for module in model.modules():
        _replace.forget_copied(module)
        if _replace.is_ours(module):
            _replace.restore(module)
    return model
