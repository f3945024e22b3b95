# SPDX-License-Identifier: MIT
"""Experts of transformers' mixtures in 4 bits: loaded, computed, saved, and left alone where that is asked."""

from __future__ import annotations

import logging

import pytest
import torch

from tests.integrations.answers import far, generates, logits
from tests.integrations.families import SIZES, saved

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]

# Routing turns over where two experts are nearly equal, and rounding decides; in float32 it seldom does.
NEAR = 1e-4


@pytest.fixture(params=["mixtral", "qwen3-moe", "gpt-oss"])
def mixture(request, transformers, seed, tmp_path):
    """A checkpoint; the last has weights the other way round, biases, and a gate of its own."""
    if request.param != "gpt-oss":
        return saved(transformers, request.param, tmp_path / "plain")
    config = transformers.GptOssConfig(**SIZES, head_dim=32, num_local_experts=4, num_experts_per_tok=2)
    transformers.GptOssForCausalLM(config).bfloat16().save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


@pytest.fixture
def settings(transformers):
    def made(**changes):
        usual = {"bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.float32}
        return transformers.BitsAndBytesConfig(load_in_4bit=True, **usual, **changes)

    return made


def experts_of(model):
    return [module for name, module in model.named_modules() if name.endswith("experts")]


@pytest.mark.parametrize("double", [True, False])
def test_loaded_computed_and_saved(quantizer, load, mixture, settings, ids, double, tmp_path):
    from kernelwright import nn

    quantizer.enable()
    model = load(mixture, dtype=torch.float32, quantization_config=settings(bnb_4bit_use_double_quant=double))
    found = experts_of(model)
    assert len(found) == 2
    assert all(type(module) is nn.Experts4bit for module in found)
    held = sum(found[0].state_dict()[name].nbytes for name in found[0].names)
    wide = 4 * SIZES["hidden_size"] * found[0].gate_up_proj.quant_state.shape[1] // 2 * 3
    assert held == wide // 2  # half a byte for each number of three matrices an expert
    y = logits(model, ids)
    generates(model, ids)
    model.save_pretrained(tmp_path / "once")
    again = load(tmp_path / "once", dtype=torch.float32)
    assert all(type(module) is nn.Experts4bit for module in experts_of(again))
    assert torch.equal(logits(again, ids), y)
    again.save_pretrained(tmp_path / "twice")
    assert torch.equal(logits(load(tmp_path / "twice", dtype=torch.float32), ids), y)
    back = model.dequantize()
    assert not any(isinstance(module, nn.Experts4bit) for module in back.modules())
    assert far(logits(back, ids), y) <= NEAR
    back.save_pretrained(tmp_path / "wide")
    assert far(logits(load(tmp_path / "wide", dtype=torch.float32), ids), y) <= NEAR


def test_experts_that_stay(quantizer, transformers, load, settings, seed, tmp_path, caplog):
    """On request, and then it is said how much that is."""
    path = saved(transformers, "mixtral", tmp_path / "plain")
    quantizer.enable()
    with caplog.at_level(logging.WARNING, "kernelwright"):
        model = load(path, quantization_config=settings(llm_int8_skip_modules=["experts", "lm_head"]))
    assert not any(hasattr(module, "names") for module in experts_of(model))
    assert any("% of its parameters are not in linear layers" in message for message in caplog.messages)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "kernelwright"):
        load(path, quantization_config=settings())
    assert not caplog.messages


def test_a_checkpoint_whose_experts_are_wide(bnb, quantizer, transformers, load, settings, ids, seed, tmp_path):
    """bitsandbytes' quantizer leaves them so; they are loaded as they are."""
    path = saved(transformers, "mixtral", tmp_path / "plain")
    theirs = load(path, dtype=torch.float32, quantization_config=settings())
    theirs.save_pretrained(tmp_path / "theirs", save_original_format=False)
    y = logits(theirs, ids)
    quantizer.enable()
    model = load(tmp_path / "theirs", dtype=torch.float32)
    assert not any(hasattr(module, "names") for module in experts_of(model))
    assert far(logits(model, ids), y) <= NEAR


def test_gradients_reach_what_is_before_and_beside(quantizer, transformers, load, settings, ids, seed, tmp_path):
    """Of adapters in attention layers and of the router, as in the dequantized model."""
    path = saved(transformers, "mixtral", tmp_path / "plain")
    quantizer.enable()
    model = load(path, dtype=torch.float32, quantization_config=settings())

    def gradients():
        model.zero_grad()
        embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
        router = model.model.layers[0].mlp.gate.weight.requires_grad_()
        model(inputs_embeds=embedded).logits.square().sum().backward()
        return embedded.grad, router.grad.clone()

    found = gradients()
    model = model.dequantize()
    for mine, expected in zip(found, gradients(), strict=True):
        assert far(mine, expected) <= NEAR
