# SPDX-License-Identifier: MIT
"""transformers' 4-bit models on kernelwright's layers, with or without bitsandbytes installed.

transformers picks what quantizes a model from a table, by the configuration's name. After `enable()` that table has
kernelwright's quantizer for `BitsAndBytesConfig(load_in_4bit=True)`: for models that are quantized while they are
loaded, and for checkpoints that bitsandbytes made. Programs and checkpoints stay as they are; what is saved loads with
bitsandbytes too.

>>> import kernelwright.integrations.transformers as quantizer
>>> quantizer.enable()
>>> model = AutoModelForCausalLM.from_pretrained(path, quantization_config=BitsAndBytesConfig(load_in_4bit=True))
"""

from __future__ import annotations

import importlib
from typing import Any

from kernelwright import errors

__all__ = ["disable", "enable", "enabled"]

METHOD = "bitsandbytes_4bit"
_before: list[Any] = []  # what stood in the table, while ours does


def _table() -> Any:
    try:
        from transformers.quantizers import auto
    except ImportError as error:
        raise errors.Unsupported(
            f"transformers cannot be imported ({error}): install it, or quantize any torch model with "
            "kernelwright.nn.quantize_"
        ) from error
    return auto.AUTO_QUANTIZER_MAPPING


def enabled() -> bool:
    """Whether transformers quantizes to 4 bits with kernelwright's layers now."""
    return bool(_before)


def enable() -> None:
    """Makes kernelwright's the quantizer of models in 4 bits, until `disable()`. Needs transformers 5."""
    table = _table()
    if not _before:
        try:
            quantizer = importlib.import_module("kernelwright.integrations._transformers_quantizer").Quantizer
        except ImportError as error:
            import transformers

            raise errors.Unsupported(
                f"transformers {transformers.__version__} builds quantized models in another way ({error}); "
                "kernelwright knows that of transformers 5: upgrade it (pip install -U transformers)"
            ) from error
        _before.append(table[METHOD])
        table[METHOD] = quantizer


def disable() -> None:
    """Gives models in 4 bits back to the quantizer that was there before."""
    if _before:
        _table()[METHOD] = _before.pop()
