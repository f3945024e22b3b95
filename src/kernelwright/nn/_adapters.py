# SPDX-License-Identifier: MIT
"""peft's LoRA layers after the layers that they wrap were dequantized."""

from __future__ import annotations

import sys

import torch


def make_plain(model: torch.nn.Module) -> None:
    """Where bitsandbytes is, or kernelwright in its place, peft wraps a layer in 4 or 8 bits in a class that merges
    into codes. Around a plain layer it becomes peft's plain class: the same parameters, merged into numbers.
    """
    for module in model.modules():
        kind = type(module)
        if kind.__module__ != "peft.tuners.lora.bnb" or kind.__name__ not in ("Linear4bit", "Linear8bitLt"):
            continue
        if type(getattr(module, "base_layer", None)) is torch.nn.Linear:
            module.__class__ = sys.modules["peft.tuners.lora.layer"].Linear
            module.fan_in_fan_out = False
            module.is_target_conv_1d_layer = False
