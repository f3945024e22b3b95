# SPDX-License-Identifier: MIT
"""A word about large parameters that a quantizer leaves as they are. Importing this file imports torch."""

from __future__ import annotations

import logging
import math
from typing import Any

import torch

from kernelwright.nn.params_4bit import Params4bit

_SHARE = 0.1  # of a model's numbers: less than that is no surprise
_CONVOLUTIONS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)


def left_wide(model: Any) -> dict[str, int]:
    """How many numbers lie in parameters of three and more dimensions, by the module that has them: experts in one
    tensor are such, and no linear layer is. Numbers in names are stars."""
    found: dict[str, int] = {}
    for path, module in model.named_modules():
        own = module.parameters(recurse=False)
        count = sum(math.prod(p.shape) for p in own if p.dim() > 2 and not isinstance(p, Params4bit))
        if count and not isinstance(module, _CONVOLUTIONS):
            name = ".".join("*" if part.isdigit() else part for part in path.split("."))
            found[name] = found.get(name, 0) + count
    return found


def tell(model: Any) -> None:
    """Logs a warning where a good part of the model will stay in the type that it is loaded in."""
    wide = left_wide(model)
    share = sum(wide.values()) / max(1, sum(math.prod(p.shape) for p in model.parameters()))
    if share >= _SHARE:
        logging.getLogger(__name__).warning(
            "%s: %.0f %% of its parameters are not in linear layers and stay unquantized: %s. Plan memory for them, or "
            "quantize each with kernelwright.compat.bitsandbytes.nn.parametrize.replace_parameter_4bit",
            type(model).__name__,
            100 * share,
            ", ".join(sorted(wide)),
        )
