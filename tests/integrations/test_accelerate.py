# SPDX-License-Identifier: MIT
"""accelerate loads a model in 4 bits into either library's layers; its own one call for that wants a GPU."""

from __future__ import annotations

import pytest
import torch

from tests.integrations.answers import ROUNDING, far, generates, logits, wide

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def empty(accelerate, transformers, checkpoint):
    """The model of the checkpoint without values."""
    with accelerate.init_empty_weights():
        return transformers.LlamaForCausalLM(transformers.LlamaConfig.from_pretrained(checkpoint)).to(torch.bfloat16)


def filled(accelerate, model, checkpoint, device):
    accelerate.load_checkpoint_in_model(model, checkpoint, device_map={"": device}, dtype=torch.bfloat16)
    return model.eval()


def test_into_its_layers(bnb, under, accelerate, empty, checkpoint, load, settings, ids, device):
    from accelerate.utils.bnb import BnbQuantizationConfig, replace_with_bnb_layers

    config = BnbQuantizationConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=settings.bnb_4bit_quant_type,
        bnb_4bit_use_double_quant=settings.bnb_4bit_use_double_quant,
        bnb_4bit_compute_dtype=torch.bfloat16,
        torch_dtype=torch.bfloat16,
    )
    under.enable()
    with accelerate.init_empty_weights():
        model = replace_with_bnb_layers(empty, config, modules_to_not_convert=["lm_head"])
    model = filled(accelerate, model, checkpoint, device)
    assert type(model.model.layers[0].mlp.up_proj) is bnb.nn.Linear4bit
    same(model, load(checkpoint, quantization_config=settings), ids)


def test_into_our_layers(quantizer, accelerate, empty, checkpoint, load, settings, ids, device):
    from kernelwright import nn

    for name, layer in list(empty.named_modules()):
        if type(layer) is torch.nn.Linear and name != "lm_head":
            made = nn.Linear4bit(
                layer.in_features,
                layer.out_features,
                bias=False,
                compute_dtype=torch.bfloat16,
                compress_statistics=settings.bnb_4bit_use_double_quant,
                quant_type=settings.bnb_4bit_quant_type,
                device="meta",
            )
            empty.set_submodule(name, made)
    model = filled(accelerate, empty, checkpoint, device)
    quantizer.enable()
    same(model, load(checkpoint, quantization_config=settings), ids)


def same(model, other, ids):
    """As transformers makes it of the same checkpoint."""
    expected = wide(other)
    for name, weight in wide(model).items():
        assert torch.equal(weight.bfloat16(), expected[name]), name
    assert far(logits(model, ids), logits(other, ids)) <= ROUNDING
    generates(model, ids)
