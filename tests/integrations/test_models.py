# SPDX-License-Identifier: MIT
"""A small Llama of transformers in 4 bits, each way in: the same answers as with bitsandbytes, and its checkpoints."""

from __future__ import annotations

import copy
import importlib
import json
import os
import pickle
import subprocess
import sys
import weakref

import pytest
import torch

from tests.integrations.answers import ROUNDING, as_near, far, generates, logits, wide

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]


def test_under_bitsandbytes(under, checkpoint, load, settings, ids, theirs):
    under.enable()
    model = load(checkpoint, quantization_config=settings)
    assert type(model.model.layers[0].mlp.up_proj).__module__.startswith("bitsandbytes")
    generates(model, ids)
    as_near(model, theirs, ids)


def test_with_our_layers(quantizer, checkpoint, load, settings, ids, theirs, tmp_path):
    from kernelwright import nn

    plain = logits(load(checkpoint), ids)
    quantizer.enable()
    model = load(checkpoint, quantization_config=settings)
    assert type(model.model.layers[0].mlp.up_proj) is nn.Linear4bit
    assert type(model.lm_head) is torch.nn.Linear
    here = logits(model, ids)
    assert far(here, plain) > ROUNDING
    generates(model, ids)
    model.save_pretrained(tmp_path / "saved")
    assert torch.equal(logits(load(tmp_path / "saved"), ids), here)
    as_near(load(checkpoint, quantization_config=settings), theirs, ids)
    back = model.dequantize()
    assert far(logits(back, ids), here) <= ROUNDING
    assert type(back.model.layers[0].mlp.up_proj) is torch.nn.Linear


def test_checkpoints_go_both_ways(bnb, quantizer, checkpoint, load, settings, ids, tmp_path):
    load(checkpoint, quantization_config=settings).save_pretrained(tmp_path / "theirs")
    quantizer.enable()
    load(checkpoint, quantization_config=settings).save_pretrained(tmp_path / "ours")
    configs = [json.loads((tmp_path / who / "config.json").read_text()) for who in ("ours", "theirs")]
    assert configs[0]["quantization_config"] == configs[1]["quantization_config"]
    from safetensors.torch import load_file

    ours, given = (load_file(tmp_path / who / "model.safetensors") for who in ("ours", "theirs"))
    assert {k: (v.shape, v.dtype) for k, v in ours.items()} == {k: (v.shape, v.dtype) for k, v in given.items()}
    read_here, made_here = load(tmp_path / "theirs"), load(tmp_path / "ours")
    quantizer.disable()
    read_there, made_there = load(tmp_path / "theirs"), load(tmp_path / "ours")
    for a, b in ((read_here, read_there), (made_here, made_there)):
        weights = wide(b)
        for name, value in wide(a).items():
            assert torch.equal(value, weights[name]), name
        assert far(logits(a, ids), logits(b, ids)) <= ROUNDING


def test_what_a_model_says_of_itself(bnb, quantizer, checkpoint, load, settings, ids, theirs):
    """What other programs ask it: how many parameters it has, and whether it is in 4 bits. Copies say the same."""
    quantizer.enable()
    model = load(checkpoint, quantization_config=settings)
    plain = load(checkpoint)
    for one in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        assert one.is_loaded_in_4bit is theirs.is_loaded_in_4bit is True
        for asked in ({}, {"exclude_embeddings": True}, {"only_trainable": True}):
            assert one.num_parameters(**asked) == theirs.num_parameters(**asked), asked
        assert one.num_parameters() == plain.num_parameters()
        assert one.num_parameters.model() is one
        assert torch.equal(logits(one, ids), logits(model, ids))
    back = model.dequantize()
    assert not getattr(back, "is_loaded_in_4bit", False)
    assert back.num_parameters() == plain.num_parameters()
    passing = load(checkpoint, quantization_config=settings)
    seen = weakref.ref(passing)
    del passing
    assert seen() is None  # at once: on a GPU its memory is wanted again


def test_layers_that_hold_their_weight_the_other_way_round(bnb, quantizer, transformers, load, settings, ids, tmp_path):
    """GPT-2's: quantized, saved, loaded by either, dequantized, saved and loaded."""
    config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=500, n_positions=32, pad_token_id=0)
    transformers.GPT2LMHeadModel(config).to(torch.bfloat16).save_pretrained(tmp_path / "plain")
    quantizer.enable()
    model = load(tmp_path / "plain", quantization_config=settings)
    y = logits(model, ids)
    model.save_pretrained(tmp_path / "quantized")
    assert torch.equal(logits(load(tmp_path / "quantized"), ids), y)
    model.dequantize()
    assert far(logits(model, ids), y) <= ROUNDING
    model.save_pretrained(tmp_path / "dequantized")
    assert torch.equal(logits(load(tmp_path / "dequantized"), ids), logits(model, ids))
    quantizer.disable()
    assert far(logits(load(tmp_path / "quantized"), ids), y) <= ROUNDING


def test_whole_models_in_place(bnb, checkpoint, load, ids, settings, theirs):
    """Without transformers' quantizer: quantize_ on a loaded model."""
    from kernelwright import nn

    model = nn.quantize_(
        load(checkpoint),
        quant_type=settings.bnb_4bit_quant_type,
        compress_statistics=settings.bnb_4bit_use_double_quant,
        compute_dtype=torch.bfloat16,
    )
    assert type(model.lm_head) is torch.nn.Linear
    generates(model, ids)
    as_near(model, theirs, ids)


@pytest.mark.parametrize("whose", ["bitsandbytes", "kernelwright.compat.bitsandbytes"])
def test_a_program_with_either_import(whose, transformers, bnb, checkpoint, load, settings, ids, theirs, device):
    """Layers put into a model by hand, as programs do that use bitsandbytes by itself."""
    bnb = importlib.import_module(whose)
    kind = {
        "compress_statistics": settings.bnb_4bit_use_double_quant,
        "quant_type": settings.bnb_4bit_quant_type,
    }
    model = load(checkpoint)
    for name, old in list(model.named_modules()):
        if isinstance(old, torch.nn.Linear) and name != "lm_head":
            made = bnb.nn.Linear4bit(
                old.in_features, old.out_features, bias=False, compute_dtype=torch.bfloat16, **kind
            )
            made.weight = bnb.nn.Params4bit(old.weight.data, requires_grad=False, **kind)
            model.set_submodule(name, made)
    model = model.to(device)
    layer = model.model.layers[0].mlp.down_proj
    assert isinstance(layer.weight, bnb.nn.Params4bit)
    assert layer.weight.quant_state.shape == (128, 256)
    h = torch.randn(3, 256).bfloat16()
    with torch.no_grad():
        y = bnb.matmul_4bit(h, layer.weight.t(), layer.weight.quant_state)
        weight = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
        assert far(y.double(), (h @ weight.t()).double()) <= 2**-7
    generates(model, ids)
    as_near(model, theirs, ids)


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "bitsandbytes":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name.partition(".")[0] == "bitsandbytes" else find(name, *a)
import torch, transformers
import kernelwright.integrations.transformers as quantizer
quantizer.enable()
path, saved, device = sys.argv[1:]
config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype="bfloat16")
load = transformers.AutoModelForCausalLM.from_pretrained
options = {"dtype": torch.bfloat16, "device_map": {"": device}}
model = load(path, quantization_config=config, **options)
model.save_pretrained(saved)
again = load(saved, **options)
ids = torch.randint(1, 500, (2, 7), device=device)
print(torch.equal(model(ids).logits, again(ids).logits), model.num_parameters() > 0, "bitsandbytes" in sys.modules)
"""


def test_without_bitsandbytes(transformers, checkpoint, tmp_path, device):
    """On a machine that does not have it, or as here cannot import it."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(checkpoint), str(tmp_path / "saved"), device],
        env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["True", "True", "False"], done.stderr
