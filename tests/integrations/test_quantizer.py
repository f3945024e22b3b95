# SPDX-License-Identifier: MIT
"""The quantizer of transformers' models beside bitsandbytes': every setting reaches the same layers, and no other."""

from __future__ import annotations

import pytest
import torch

from tests.integrations.answers import ROUNDING, far, logits

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]

SETTINGS = [
    {"bnb_4bit_quant_storage": torch.bfloat16},
    {"bnb_4bit_quant_storage": torch.float32, "bnb_4bit_use_double_quant": True},
    {"bnb_4bit_compute_dtype": torch.float16},
    {"llm_int8_skip_modules": ["q_proj", "lm_head"]},
    {"llm_int8_skip_modules": ["model.layers.0"]},
]


def described(model):
    """Of each 4-bit layer all that was asked for, and the types of all else."""
    found = {}
    for name, module in model.named_modules():
        if type(module).__name__ == "Linear4bit":
            weight, state = module.weight, module.weight.quant_state
            found[name] = (
                *(module.compute_dtype, module.quant_storage, weight.dtype, weight.shape, weight.requires_grad),
                *(weight.quant_type, weight.blocksize, weight.compress_statistics, weight.quant_storage),
                *(state.quant_type, state.blocksize, state.nested, state.dtype, tuple(state.shape)),
            )
    assert found
    others = {
        name: value.dtype for name, value in model.named_parameters() if name.removesuffix(".weight") not in found
    }
    return found | others


@pytest.mark.parametrize("changes", SETTINGS, ids=lambda changes: "-".join(map(str, changes.values())))
def test_settings(bnb, quantizer, transformers, checkpoint, load, ids, changes, tmp_path):
    config = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.bfloat16} | changes
    theirs = load(checkpoint, quantization_config=transformers.BitsAndBytesConfig(**config))
    expected = described(theirs)
    theirs.save_pretrained(tmp_path / "theirs")
    quantizer.enable()
    model = load(checkpoint, quantization_config=transformers.BitsAndBytesConfig(**config))
    assert described(model) == expected
    assert far(logits(model, ids), logits(theirs, ids)) <= ROUNDING
    assert described(load(tmp_path / "theirs")) == expected
    model.save_pretrained(tmp_path / "ours")
    again = load(tmp_path / "ours")
    assert described(again) == expected
    assert torch.equal(logits(again, ids), logits(model, ids))


def test_what_a_model_keeps_in_float32(bnb, quantizer, transformers, settings, seed, device, tmp_path):
    """T5 says so of its `wo`: neither quantizes it."""
    sizes = {"d_model": 64, "d_ff": 128, "d_kv": 16, "num_layers": 1, "num_heads": 4, "vocab_size": 50}
    config = transformers.T5Config(**sizes, decoder_start_token_id=0)
    kind = transformers.T5ForConditionalGeneration
    kind(config).save_pretrained(tmp_path)

    def load():
        return kind.from_pretrained(
            tmp_path, dtype=torch.float16, quantization_config=settings, device_map={"": device}
        )

    expected = described(load())
    quantizer.enable()
    found = described(load())
    assert found == expected
    assert found["encoder.block.0.layer.1.DenseReluDense.wo.weight"] is torch.float32
    assert "encoder.block.0.layer.1.DenseReluDense.wi" in found


def empty(transformers):
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 50}
    with torch.device("meta"):
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, num_hidden_layers=2))


def made(transformers, **settings):
    from kernelwright.integrations._transformers_quantizer import Quantizer

    return Quantizer(transformers.BitsAndBytesConfig(load_in_4bit=True, **settings), pre_quantized=False)


def test_layers_that_a_map_leaves_on_the_cpu(quantizer, transformers):
    """As bitsandbytes: refused, or on request not quantized."""
    from kernelwright import errors, nn

    split = {"model.embed_tokens": 0, "model.layers.0": 0, "model.layers.1": "cpu", "model.norm": 0, "lm_head": 0}
    with pytest.raises(errors.InvalidArgument, match="device_map puts some modules on cpu and others on a GPU"):
        made(transformers).validate_environment(device_map=split)
    with pytest.raises(errors.InvalidArgument, match="some modules on disk"):
        made(transformers).validate_environment(device_map={"": "disk"})
    for fine in (None, "auto", {"": 0}, {"": "cpu"}):
        made(transformers).validate_environment(device_map=fine)
    asked = made(transformers, llm_int8_enable_fp32_cpu_offload=True)
    asked.validate_environment(device_map=split)
    model = empty(transformers)
    asked._process_model_before_weight_loading(model, device_map=split)
    quantized = {name for name, module in model.named_modules() if isinstance(module, nn.Linear4bit)}
    assert len(quantized) == 7
    assert all(name.startswith("model.layers.0.") for name in quantized)


def test_a_model_without_a_layer_to_quantize(quantizer, transformers):
    from kernelwright import errors

    asked = made(transformers, llm_int8_skip_modules=["model", "lm_head"])
    with pytest.raises(errors.InvalidArgument, match="LlamaForCausalLM has no linear layer to quantize besides those"):
        asked._process_model_before_weight_loading(empty(transformers), device_map=None)
