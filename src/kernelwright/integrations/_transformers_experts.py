# SPDX-License-Identifier: MIT
"""Experts of transformers' models in 4 bits, while a model is loaded; importing this file imports transformers.

A checkpoint that was saved so has the codes under the weights' own names, with the parts of their states beside them.
bitsandbytes' quantizer leaves experts as they are; a checkpoint of it is loaded as it was saved.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
from transformers.core_model_loading import ConversionOps, WeightConverter
from transformers.quantizers.quantizers_utils import get_module_from_name, should_convert_module

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _experts
from kernelwright.nn._layer_4bit import PARTS
from kernelwright.nn.experts_4bit import Experts4bit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BLOCKSIZE = 64


def replace(model: Any, stay: Sequence[str], config: Any, stored: set[str] | None) -> int:
    """Puts modules without values in the place of experts, but for those that stay; how many. `stored`: only those
    that a checkpoint with these names has in 4 bits."""
    replaced = 0
    for name, module in list(model.named_modules()):
        wanted = should_convert_module(name, stay) and _experts.why_not(module, _BLOCKSIZE) is None
        if not wanted or (stored is not None and not _stored_in_4_bits(name, module, stored)):
            continue
        made = Experts4bit(
            module,
            config.bnb_4bit_compute_dtype,
            compress_statistics=config.bnb_4bit_use_double_quant,
            quant_type=config.bnb_4bit_quant_type,
            quant_storage=config.bnb_4bit_quant_storage,
            blocksize=_BLOCKSIZE,
        )
        if stored is not None:  # transformers converts what it loads to the type that it finds here
            for weight in made.names:
                getattr(made, weight).data = getattr(made, weight).data.to(config.bnb_4bit_quant_storage)
        model.set_submodule(name, made.requires_grad_(False))
        replaced += 1
    return replaced


def is_weight(module: Any, name: str) -> bool:
    return isinstance(module, Experts4bit) and name in module.names


def names_in(files: Iterable[str] | None) -> set[str]:
    """Of the tensors of a checkpoint, where its files can be asked without reading all of them."""
    found: set[str] = set()
    for file in files or ():
        if str(file).endswith(".safetensors"):
            from safetensors import safe_open

            with safe_open(file, framework="pt") as opened:
                found.update(opened.keys())
    return found


def _stored_in_4_bits(path: str, module: Any, stored: set[str]) -> bool:
    """Modules may have been renamed since; what stays is the last name, and the numbers before it."""
    numbers, last = re.findall(r"\d+", path), path.rpartition(".")[2]
    ends = tuple(f".{last}.{name}.absmax" for name in _experts.names(module))
    return any(key.endswith(ends) and re.findall(r"\d+", key) == numbers for key in stored)


def quantized(model: Any, name: str, weight: torch.Tensor) -> Any:
    """The parameter of an ordinary weight of a checkpoint."""
    module, last = get_module_from_name(model, name)
    old = getattr(module, last)
    module._is_hf_initialized = True  # noqa: SLF001 - transformers would fill it with random values
    return old._with(_experts.upright(weight, bool(module.is_transposed))).to(weight.device)  # noqa: SLF001


def paths(model: Any) -> set[str]:
    """The last names of 4-bit weights of experts, as many as tell them from those of dense layers."""
    found = set()
    for path, module in model.named_modules():
        if isinstance(module, Experts4bit):
            found |= {".".join([*path.split(".")[-2:], name]) for name in module.names}
    return found


def converters(paths: Iterable[str], quantizer: Any) -> list[Any]:
    """How the parts of a saved weight become one parameter."""
    return [
        WeightConverter([*(f"{path}.{part}" for part in PARTS), path], path, [_Deserialize(quantizer)])
        for path in sorted(paths)
    ]


def keep_names(model: Any) -> None:
    """transformers would save experts one by one, as most checkpoints have them; it cannot take codes apart. What was
    quantized when it was loaded is saved as it was, too."""
    ends = tuple(path.partition(".")[2] for path in paths(model))
    if getattr(model, "_weight_conversions", None) is not None:
        model._weight_conversions = [  # noqa: SLF001 - what save_pretrained() reverses
            conversion
            for conversion in model._weight_conversions  # noqa: SLF001
            if not any(getattr(operation, "keeps_names", False) for operation in getattr(conversion, "operations", ()))
            and not any(ends and target.endswith(ends) for target in conversion.target_patterns)
        ]


class _Deserialize(ConversionOps):
    """The parts of a quantized weight in a checkpoint become one parameter."""

    keeps_names = True

    def __init__(self, hf_quantizer: Any) -> None:
        self.hf_quantizer = hf_quantizer

    def convert(
        self, input_dict: dict[str, Any], model: Any = None, full_layer_name: str | None = None, **_: Any
    ) -> dict[str, Any]:
        path = min(input_dict, key=len)
        if len(input_dict) == 1:
            return input_dict
        parts = {name: value[0] if isinstance(value, list) else value for name, value in input_dict.items()}
        codes = parts.pop(path)
        module, last = get_module_from_name(model, full_layer_name)
        module._is_hf_initialized = True  # noqa: SLF001
        made = Experts4bit.from_parts(codes, {n.removeprefix(f"{path}."): v for n, v in parts.items()}, codes.device)
        expected = getattr(module, last).shape
        shape = tuple(made.quant_state.shape or ()) if made.quant_state else ()
        if shape != tuple(expected):
            raise InvalidArgument(
                f"{full_layer_name}: the checkpoint has experts of shape {shape}, the model of {tuple(expected)}"
            )
        return {path: made}
