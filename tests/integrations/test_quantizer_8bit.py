# SPDX-License-Identifier: MIT
"""transformers' models in 8 bits with kernelwright's quantizer: beside the wide model, bitsandbytes, and saved."""

from __future__ import annotations

import pytest
import torch

from tests.integrations.answers import ROUNDING, far, generates, logits

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]

SMALL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": 500}


@pytest.fixture(params=[6.0, 0.0], ids=["outliers", "none"])
def eight(request, transformers):
    return transformers.BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=request.param)


def layers(model):
    return {name: m for name, m in model.named_modules() if type(m).__name__ == "Linear8bitLt"}


def test_loaded_computed_and_saved(quantizer, checkpoint, load, eight, ids, tmp_path):
    from kernelwright import nn

    plain = logits(load(checkpoint), ids)
    quantizer.enable()
    model = load(checkpoint, quantization_config=eight)
    found = layers(model)
    assert len(found) == 14
    assert all(type(layer) is nn.Linear8bitLt and layer.weight.dtype is torch.int8 for layer in found.values())
    assert type(model.lm_head) is torch.nn.Linear
    y = logits(model, ids)
    assert 0 < far(y, plain) <= ROUNDING
    generates(model, ids)
    model.save_pretrained(tmp_path / "once")
    again = load(tmp_path / "once")
    assert torch.equal(logits(again, ids), y)
    again.save_pretrained(tmp_path / "twice")
    assert torch.equal(logits(load(tmp_path / "twice"), ids), y)
    back = model.dequantize()
    assert not layers(back)
    assert far(logits(back, ids), y) <= ROUNDING


def test_checkpoints_go_both_ways(bnb, quantizer, checkpoint, load, eight, ids, tmp_path):
    theirs = load(checkpoint, quantization_config=eight)
    codes = {name: layer.weight.data.clone() for name, layer in layers(theirs).items()}
    theirs.save_pretrained(tmp_path / "theirs")
    expected = logits(theirs, ids)
    quantizer.enable()
    mine = load(tmp_path / "theirs")
    assert all(torch.equal(layer.weight.data, codes[name]) for name, layer in layers(mine).items())
    assert far(logits(mine, ids), expected) <= ROUNDING
    load(checkpoint, quantization_config=eight).save_pretrained(tmp_path / "ours")
    quantizer.disable()
    other = load(tmp_path / "ours")
    assert far(logits(other, ids), expected) <= ROUNDING


def test_weights_the_other_way_round(quantizer, transformers, load, eight, ids, seed, tmp_path):
    """GPT-2's layers hold them so."""
    config = transformers.GPT2Config(n_embd=64, n_layer=1, n_head=4, **SMALL)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "plain")
    plain = logits(load(tmp_path / "plain", dtype=torch.float16), ids)
    quantizer.enable()
    model = load(tmp_path / "plain", dtype=torch.float16, quantization_config=eight)
    assert len(layers(model)) == 4
    assert far(logits(model, ids), plain) <= ROUNDING
    y = logits(model, ids)
    model.save_pretrained(tmp_path / "saved")
    assert torch.equal(logits(load(tmp_path / "saved", dtype=torch.float16), ids), y)
    assert far(logits(model.dequantize(), ids), plain) <= ROUNDING


def test_an_adapter_learns(peft, quantizer, checkpoint, load, eight, ids):
    quantizer.enable()
    model = load(checkpoint, quantization_config=eight)
    config = peft.LoraConfig(target_modules=["q_proj", "down_proj"], r=4, task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config)
    model(input_ids=ids, labels=ids).loss.backward()
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert trained
    # The second matrix begins with zeros, so the first has no gradient yet.
    assert all(p.grad is not None and ("lora_A" in name or p.grad.abs().max() > 0) for name, p in trained.items())
