# SPDX-License-Identifier: MIT
"""The quantizer of models in 8 bits; importing this file imports transformers."""

from __future__ import annotations

from typing import Any

import torch
from transformers.core_model_loading import ConversionOps
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.quantizer_bnb_8bit import Bnb8BitHfQuantizer
from transformers.quantizers.quantizers_utils import get_module_from_name

from kernelwright.integrations import _transformers_experts as experts
from kernelwright.integrations._transformers_quantizer import Quantizer, as_conv1d, with_own
from kernelwright.nn import _int8
from kernelwright.nn.linear_8bit import Linear8bitLt
from kernelwright.nn.params_8bit import Int8Params


class Quantizer8bit(Bnb8BitHfQuantizer):
    """transformers' quantizer for bitsandbytes in 8 bits, with each part that names bitsandbytes replaced."""

    validate_environment = Quantizer.validate_environment
    _process_model_before_weight_loading = Quantizer._process_model_before_weight_loading  # noqa: SLF001

    def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
        module, name = get_module_from_name(model, param_name)
        return isinstance(module, Linear8bitLt) and name == "weight"

    def _replace_experts(self, *_: Any) -> int:
        return 0

    def _layer(self, module: Any) -> Linear8bitLt:
        """The layer that takes a linear layer's place, without values yet."""
        config = self.quantization_config
        columns, rows = module.weight.shape if isinstance(module, Conv1D) else module.weight.shape[::-1]
        layer = Linear8bitLt(
            columns,
            rows,
            module.bias is not None,
            has_fp16_weights=config.llm_int8_has_fp16_weight,
            threshold=config.llm_int8_threshold,
            device="meta",
        )
        if self.pre_quantized:  # transformers converts what it loads to the type that it finds here
            layer.weight = Int8Params(layer.weight.data.to(torch.int8), requires_grad=False)
        layer.source_cls = type(module)
        return layer.requires_grad_(False)

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> Any:
        found = super()._process_model_after_weight_loading(model)
        experts.keep_names(model)
        return found

    def _dequantize(self, model: Any, dtype: Any = None) -> Any:
        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype  # a configuration read from a file has names
        for name, module in list(model.named_modules()):
            if isinstance(module, Linear8bitLt):
                linear = _dequantized(module, dtype or model.dtype)
                was = issubclass(getattr(module, "source_cls", torch.nn.Linear), Conv1D)
                model.set_submodule(name, as_conv1d(linear) if was else linear)
        vars(model).pop("is_loaded_in_8bit", None)
        return model

    def get_quantize_ops(self) -> ConversionOps:
        return _Quantize(self)

    def get_weight_conversions(self) -> list[Any]:
        """Early versions of 5 do not ask for the operation below but name their own."""
        return with_own(super().get_weight_conversions(), "Bnb8bitDeserialize", _Deserialize(self))

    def get_load_operations(self) -> dict[str, type[ConversionOps]]:
        return {"deserialize": _Deserialize}


def _dequantized(layer: Linear8bitLt, dtype: torch.dtype) -> torch.nn.Linear:
    scales = layer._scales()  # noqa: SLF001
    made = torch.nn.Linear(layer.in_features, layer.out_features, device="meta")
    weight = layer.weight.data
    dense = weight.to(dtype) if scales is None else _int8.vectorwise_dequant(weight, scales).to(dtype)
    made.weight = torch.nn.Parameter(dense, requires_grad=False)
    made.bias = layer.bias
    return made.train(layer.training)


class _Quantize(ConversionOps):
    """An ordinary weight of a checkpoint becomes a quantized parameter."""

    def __init__(self, hf_quantizer: Quantizer8bit) -> None:
        self.hf_quantizer = hf_quantizer

    def convert(self, input_dict: dict[str, Any], model: Any = None, **_: Any) -> dict[str, Any]:
        found = {}
        for name, value in input_dict.items():
            weight = value[0] if isinstance(value, list) else value
            module, _last = get_module_from_name(model, name)
            if issubclass(getattr(module, "source_cls", torch.nn.Linear), Conv1D):
                weight = weight.T
            old = model.get_parameter_or_buffer(name)
            made = Int8Params(weight, requires_grad=False, has_fp16_weights=old.has_fp16_weights)
            found[name] = made if made.has_fp16_weights else made.quantized(weight.device)
            module._is_hf_initialized = True  # noqa: SLF001 - transformers would fill it with random values
        return found


class _Deserialize(ConversionOps):
    """The parts of a quantized weight in a checkpoint become one parameter."""

    keeps_names = True

    def __init__(self, hf_quantizer: Quantizer8bit) -> None:
        self.hf_quantizer = hf_quantizer

    def convert(
        self, input_dict: dict[str, Any], model: Any = None, full_layer_name: str | None = None, **_: Any
    ) -> dict[str, Any]:
        if len(input_dict) == 1:
            return input_dict
        parts = {name: value[0] if isinstance(value, list) else value for name, value in input_dict.items()}
        module, _last = get_module_from_name(model, full_layer_name)
        module._is_hf_initialized = True  # noqa: SLF001
        weight, scales = parts["weight"], parts["SCB"]
        return {"weight": Int8Params(weight, requires_grad=False, CB=weight, SCB=scales.to(weight.device))}
