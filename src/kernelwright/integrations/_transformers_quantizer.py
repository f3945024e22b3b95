# SPDX-License-Identifier: MIT
"""The quantizer itself; importing this file imports transformers."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from transformers.core_model_loading import ConversionOps
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.quantizer_bnb_4bit import Bnb4BitHfQuantizer
from transformers.quantizers.quantizers_utils import get_module_from_name, should_convert_module

from kernelwright.errors import InvalidArgument
from kernelwright.integrations import _transformers_experts as experts
from kernelwright.integrations import _wide
from kernelwright.nn.linear_4bit import Linear4bit
from kernelwright.nn.params_4bit import Params4bit
from kernelwright.nn.quantize import dequantize_

if TYPE_CHECKING:
    from collections.abc import Collection


class Quantizer(Bnb4BitHfQuantizer):
    """transformers' quantizer for bitsandbytes in 4 bits, with each part that names bitsandbytes replaced."""

    expert_paths: Collection[str] = ()

    @property
    def is_compileable(self) -> bool:
        """`generate()` asks it before it compiles the forward pass for a static cache: the layers are one graph.

        Not within torch.set_default_device or `with torch.device(...)`: there torch.compile (2.13) cannot read a
        parameter of a class of its own, and would cut the graph at each layer.
        """
        return not torch._C._is_torch_function_mode_enabled()  # noqa: SLF001 - it has no public name

    def validate_environment(self, *_: Any, device_map: Any = None, **__: Any) -> None:
        """Nothing has to be installed. What bitsandbytes refuses is refused: layers on the disk, half of a model."""
        places = set(device_map.values()) if isinstance(device_map, dict) else set()
        offload = self.quantization_config.llm_int8_enable_fp32_cpu_offload
        slow = places & {"cpu", "disk"}
        if not offload and slow and places != {"cpu"}:
            raise InvalidArgument(
                f"device_map puts some modules on {', '.join(sorted(slow))} and others on a GPU: give the GPU all "
                "of them, or set llm_int8_enable_fp32_cpu_offload=True, which leaves those on the CPU unquantized"
            )

    def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
        module, name = get_module_from_name(model, param_name)
        return (isinstance(module, Linear4bit) and name == "weight") or experts.is_weight(module, name)

    def _process_model_before_weight_loading(
        self, model: Any, device_map: Any = None, checkpoint_files: Any = None, **_: Any
    ) -> None:
        config = self.quantization_config
        in_full = model._keep_in_fp32_modules  # noqa: SLF001 - what transformers' own quantizers ask
        stay = self.get_modules_to_not_convert(model, config.llm_int8_skip_modules, in_full)
        if config.llm_int8_enable_fp32_cpu_offload and isinstance(device_map, dict):
            stay = [*stay, *(name for name, place in device_map.items() if place in ("cpu", "disk"))]
        self.modules_to_not_convert = stay
        replaced = self._replace_experts(model, stay, checkpoint_files)
        self.expert_paths = experts.paths(model)
        for name, module in list(model.named_modules()):
            if should_convert_module(name, stay) and (type(module) is torch.nn.Linear or isinstance(module, Conv1D)):
                model.set_submodule(name, self._layer(module))
                replaced += 1
        _wide.tell(model)
        if not replaced:
            raise InvalidArgument(
                f"{type(model).__name__} has no linear layer to quantize besides those that stay: {', '.join(stay)}"
            )

    def _replace_experts(self, model: Any, stay: list[str], files: Any) -> int:
        return experts.replace(
            model, stay, self.quantization_config, experts.names_in(files) if self.pre_quantized else None
        )

    def _layer(self, module: Any) -> Linear4bit:
        """The layer that takes a linear layer's place, without values yet."""
        config = self.quantization_config
        columns, rows = module.weight.shape if isinstance(module, Conv1D) else module.weight.shape[::-1]
        layer = Linear4bit(
            columns,
            rows,
            module.bias is not None,
            config.bnb_4bit_compute_dtype,
            compress_statistics=config.bnb_4bit_use_double_quant,
            quant_type=config.bnb_4bit_quant_type,
            quant_storage=config.bnb_4bit_quant_storage,
            device="meta",
        )
        if self.pre_quantized:  # transformers converts what it loads to the type that it finds here
            layer.weight.data = layer.weight.data.to(config.bnb_4bit_quant_storage)
        layer.source_cls = type(module)
        return layer.requires_grad_(False)

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> Any:
        """peft and transformers ask for the first: without it peft prepares no checkpointing of gradients."""
        model.is_loaded_in_4bit = True
        experts.keep_names(model)
        model.num_parameters = _NumberOfParameters(model)
        return model

    def _dequantize(self, model: Any, dtype: Any = None) -> Any:
        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype  # a configuration read from a file has names
        transposed = [name for name, module in model.named_modules() if _was_transposed(module)]
        dequantize_(model, dtype)
        for name in transposed:
            model.set_submodule(name, as_conv1d(model.get_submodule(name)))
        for name in ("is_loaded_in_4bit", "num_parameters"):
            vars(model).pop(name, None)
        return model

    def get_quantize_ops(self) -> ConversionOps:
        return _Quantize(self)

    def get_weight_conversions(self) -> list[Any]:
        """As transformers has them; early versions of 5 do not ask for the operation below but name their own."""
        return with_own(super().get_weight_conversions(), "Bnb4bitDeserialize", _Deserialize(self))

    def update_weight_conversions(self, weight_conversions: Any, *model: Any) -> list[Any]:
        """Earlier releases of 5 do not hand over the model."""
        found: list[Any] = super().update_weight_conversions(weight_conversions, *model)
        return [*found, *experts.converters(self.expert_paths, self)] if self.pre_quantized else found

    def get_load_operations(self) -> dict[str, type[ConversionOps]]:
        return {"deserialize": _Deserialize}


def with_own(converters: list[Any], theirs: str, own: ConversionOps) -> list[Any]:
    """transformers' converters with an operation of ours in the place of one that calls bitsandbytes.

    That one is told by its name: to import its class is to import bitsandbytes, where it is installed, or torch's
    compiler, either of which takes longer than kernelwright does.
    """
    for converter in converters:
        converter.operations = [own if type(one).__name__ == theirs else one for one in converter.operations]
    return converters


class _NumberOfParameters:
    """A model's `num_parameters`; transformers' own asks bitsandbytes what a parameter in 4 bits is.

    It does not hold the model, which goes when the program lets it go; copies of the model have one of their own.
    """

    def __init__(self, model: Any) -> None:
        self.model = weakref.ref(model)

    def __deepcopy__(self, memo: dict[int, Any]) -> _NumberOfParameters:
        return type(self)(memo.get(id(self.model()), self.model()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model(),)

    def __call__(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        model: Any = self.model()
        tables = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, torch.nn.Embedding)}
        return sum(
            2 * parameter.nbytes if isinstance(parameter, Params4bit) and parameter.bnb_quantized else parameter.numel()
            for name, parameter in model.named_parameters()
            if (parameter.requires_grad or not only_trainable) and not (exclude_embeddings and name in tables)
        )


def _was_transposed(module: Any) -> bool:
    """Whether it takes the place of a layer that holds its weight the other way round."""
    return isinstance(module, Linear4bit) and issubclass(getattr(module, "source_cls", torch.nn.Linear), Conv1D)


def as_conv1d(linear: torch.nn.Linear) -> Any:
    """The same as the layer that a checkpoint of this model is made for."""
    with torch.device("meta"):
        made = Conv1D(linear.out_features, linear.in_features)
    made.weight = torch.nn.Parameter(linear.weight.T.contiguous(), requires_grad=False)
    made.bias = linear.bias
    return made.train(linear.training)


class _Quantize(ConversionOps):
    """An ordinary weight of a checkpoint becomes a quantized parameter."""

    def __init__(self, hf_quantizer: Quantizer) -> None:
        self.hf_quantizer = hf_quantizer

    def convert(self, input_dict: dict[str, Any], model: Any = None, **_: Any) -> dict[str, Any]:
        found = {}
        for name, value in input_dict.items():
            weight = value[0] if isinstance(value, list) else value
            module, last = get_module_from_name(model, name)
            if experts.is_weight(module, last):
                found[name] = experts.quantized(model, name, weight)
                continue
            if _was_transposed(module):
                weight = weight.T
            old = model.get_parameter_or_buffer(name)
            found[name] = Params4bit(weight, **{**old.__dict__, "requires_grad": False}).to(weight.device)
            module._is_hf_initialized = True  # noqa: SLF001 - transformers would fill it with random values
        return found


class _Deserialize(ConversionOps):
    """The parts of a quantized weight in a checkpoint become one parameter."""

    keeps_names = True  # a state dict has the parts under the checkpoint's names

    def __init__(self, hf_quantizer: Quantizer) -> None:
        self.hf_quantizer = hf_quantizer

    def convert(
        self, input_dict: dict[str, Any], model: Any = None, full_layer_name: str | None = None, **_: Any
    ) -> dict[str, Any]:
        if len(input_dict) == 1:
            return input_dict
        parts = {name: value[0] if isinstance(value, list) else value for name, value in input_dict.items()}
        weight = parts.pop("weight")
        module, _last = get_module_from_name(model, full_layer_name)
        module._is_hf_initialized = True  # noqa: SLF001
        return {"weight": Params4bit.from_prequantized(weight, parts, device=weight.device, module=module)}
