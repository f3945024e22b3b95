# SPDX-License-Identifier: MIT
"""transformers' BitNet layers, once they have their weights, become kernelwright's. Importing this file imports torch's
compiler, which transformers' own file asks for as it is read."""

from __future__ import annotations

from typing import Any

import torch
from transformers.core_model_loading import ConversionOps
from transformers.integrations.bitnet import AutoBitLinear, BitNetDeserialize
from transformers.integrations.bitnet import BitLinear as Stored

from kernelwright.nn.bit_linear import BitLinear
from kernelwright.nn.ternary_formats import unpack_transformers


class Deserialize(BitNetDeserialize):
    """What it unpacked is packed again by our layers, in their state dicts."""

    @property
    def reverse_op(self) -> ConversionOps:
        return _AsItIs()


class _AsItIs(ConversionOps):
    def convert(self, input_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
        return input_dict


def _settings(old: Any) -> dict[str, Any]:
    norm = old.rms_norm
    return {} if norm is None else {"rms_norm_eps": norm.variance_epsilon}


def _made(old: Any) -> BitLinear | None:
    sizes = old.in_features, old.out_features
    if isinstance(old, Stored):
        made = BitLinear(*sizes, packed=True, device="meta", **_settings(old))
        made.packed = unpack_transformers(old.weight, old.out_features)
        made.weight_scale, made.bias = old.weight_scale, _frozen(old.bias)
    elif old.online_quant:
        made = BitLinear(*sizes, device="meta", **_settings(old))
        made.weight, made.bias = old.weight, old.bias
    else:
        weight = old.weight.detach()
        if not bool(((weight == -1) | (weight == 0) | (weight == 1)).all()):
            return None  # it is computed with as it is
        made = BitLinear.from_values(weight, old.weight_scale, old.bias, divides=False, **_settings(old))
    if old.rms_norm is not None and made.rms_norm is not None:
        made.rms_norm.weight = old.rms_norm.weight
    return made.train(old.training)


def _frozen(bias: Any) -> Any:
    return None if bias is None else torch.nn.Parameter(bias, requires_grad=False)


def replace(model: Any) -> Any:
    """Puts kernelwright's layers in the place of those of transformers."""
    for name, old in list(model.named_modules()):
        if isinstance(old, (Stored, AutoBitLinear)) and (made := _made(old)) is not None:
            model.set_submodule(name, made)
    return model
