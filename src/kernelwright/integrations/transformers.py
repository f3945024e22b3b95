# SPDX-License-Identifier: MIT
"""transformers' models on kernelwright's kernels: layers in 4 bits, 8 bits and BitNet's, with or without bitsandbytes
installed; attention.

transformers picks what quantizes a model from a table, by the configuration's name. After `enable()` that table has
kernelwright's quantizers for `BitsAndBytesConfig(load_in_4bit=True)` and `BitsAndBytesConfig(load_in_8bit=True)`: for
models that are quantized while they are loaded, and for checkpoints that bitsandbytes made; and for BitNet's
checkpoints, packed or to train. Programs and checkpoints stay as they are; what is saved loads with bitsandbytes and
with transformers' own layers too.

>>> import kernelwright.integrations.transformers as quantizer
>>> quantizer.enable()
>>> model = AutoModelForCausalLM.from_pretrained(path, quantization_config=BitsAndBytesConfig(load_in_4bit=True))
>>> print(quantizer.optimize(model))

`register_attention()` makes kernelwright's attention one that models can be loaded with:

>>> quantizer.register_attention()
>>> model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="kernelwright")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kernelwright import _environment, errors
from kernelwright.compat import _bitsandbytes

if TYPE_CHECKING:
    from kernelwright.integrations._bitnet_decoder import Decoder
    from kernelwright.integrations._optimize import Optimized

__all__ = ["decoder", "disable", "enable", "enabled", "optimize", "register_attention"]

METHODS = {  # by the configuration's name: the file and the class
    "bitsandbytes_4bit": ("_transformers_quantizer", "Quantizer"),
    "bitsandbytes_8bit": ("_transformers_quantizer_8bit", "Quantizer8bit"),
    "bitnet": ("_bitnet", "BitNetQuantizer"),
}
_before: dict[str, Any] = {}  # what stood in the table, while ours does
_in_its_place: list[bool] = []  # not empty: `enable` put our package in the place of a bitsandbytes that is not there


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
    """Whether transformers makes quantized models of kernelwright's layers now."""
    return bool(_before)


def enable() -> None:
    """Makes kernelwright's the quantizers of 4-bit, 8-bit and BitNet models until `disable()`. Needs transformers 5.

    Where no bitsandbytes is installed, `import bitsandbytes` gives kernelwright.compat.bitsandbytes from then on: peft
    merges adapters and makes DoRA and OLoRA of its functions, and Trainer takes its optimizers (`optim="adamw_8bit"`).
    """
    table = _table()
    if not _before:
        try:
            ours = {
                method: getattr(importlib.import_module(f"kernelwright.integrations.{module}"), name)
                for method, (module, name) in METHODS.items()
            }
        except ImportError as error:
            import transformers

            raise errors.Unsupported(
                f"transformers {transformers.__version__} builds quantized models in another way ({error}); "
                "kernelwright knows that of transformers 5: upgrade it (pip install -U transformers)"
            ) from error
        _before.update({method: table[method] for method in ours})
        table.update(ours)
        # peft and Trainer ask for its layers, functions and optimizers.
        if not _bitsandbytes.installed() and _bitsandbytes.install_where_none_is():
            _in_its_place.append(True)


def disable() -> None:
    """Gives such models back to the quantizers that were there before, and the name bitsandbytes to nobody."""
    if _before:
        _table().update(_before)
        _before.clear()
    if _in_its_place:
        _in_its_place.clear()
        _bitsandbytes.uninstall()


def register_attention() -> None:
    """Adds "kernelwright" to what `attn_implementation` may be, for models to come and model.set_attn_implementation().

    Caches, padded and packed batches, sliding windows, softcap and sinks go through kernelwright's kernels. Dropout is
    refused. Float32 on a GPU is torch's to compute.
    """
    try:
        attention = importlib.import_module("kernelwright.integrations._transformers_attention")
    except ImportError as error:
        raise errors.Unsupported(
            f"transformers' attention cannot be reached ({error}): it needs torch and a transformers that has "
            "AttentionInterface and AttentionMaskInterface; upgrade it (pip install -U transformers)"
        ) from error
    attention.register()


def optimize(model: Any) -> Optimized:
    """Puts kernelwright's norms, gated MLPs, rotary embeddings and LoRA layers under a loaded model, and says what it
    changed.

    Weights, names, classes and state dicts stay as they are, so saving, peft and Trainer work as before; the logits are
    equal within rounding. Llama, Qwen, Gemma, Mistral, Phi and mixtures of experts made of such modules are tested; a
    module of another family is changed if its own forward pass gives the same for random numbers, and else left. After
    `peft.get_peft_model` call it on the adapted model: layers with one plain LoRA adapter and no dropout are computed
    as one autograd function, in the type that the layer computes in. q, k and v in 4 bits become one
    product, and so do gate and up; of BitNet's packed layers too, and norms before them are one pass with the
    quantization of rows. With KERNELWRIGHT_DISABLE it changes nothing.

    >>> found = optimize(model)
    >>> print(found)
    >>> found.undo()
    """
    from kernelwright import ops

    ops.register()
    from kernelwright.integrations import _optimize

    return _optimize.Optimized() if _environment.read().disable else _optimize.optimize(model)


def decoder(model: Any) -> Decoder:
    """What generates with a BitNet model of packed layers, after `optimize(model)`: with a cache of its own, six
    launches a layer, and on a GPU a CUDA graph of each step. The model stays as it is. What it does not know, of models
    and of `generate`'s arguments, is refused by name.

    >>> optimize(model)
    >>> tokens = decoder(model).generate(input_ids, max_new_tokens=100)
    """
    from kernelwright import ops

    ops.register()
    from kernelwright.integrations import _bitnet_decoder

    return _bitnet_decoder.Decoder(model)
