# SPDX-License-Identifier: MIT
"""A small Llama of transformers in 4 bits, each way in: the same answers as with bitsandbytes, and its checkpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]

ROUNDING = 5e-2  # of logits that passed two layers in bfloat16, as a share of all


def logits(model, ids):
    """With gradients on, so that bitsandbytes' layers leave their codes in order."""
    return model(ids).logits.detach().double()


def far(a, b):
    return float((a - b).norm() / b.norm())


@pytest.fixture
def ids(seed):
    return torch.randint(1, 500, (2, 7))


@pytest.fixture
def theirs(bnb, checkpoint, load, settings):
    """The model on bitsandbytes' own path."""
    return load(checkpoint, quantization_config=settings)


def exact(model, ids):
    """The answers of the same codes, computed in float32; the model is used up."""
    for name, weight in wide(model).items():
        layer = torch.nn.Linear(*weight.shape[::-1], bias=False)
        layer.weight = torch.nn.Parameter(weight)
        model.set_submodule(name, layer)
    return logits(torch.nn.Module.float(model), ids)  # transformers refuses to convert a quantized model


def as_near(model, theirs, ids):
    """Rounding in bfloat16 is all that lies between two ways to compute the same.

    Each against its own codes: an FP4 weight may lie between two values to the bit, and the two then take either.
    """
    mine, other = logits(model, ids), logits(theirs, ids)
    assert far(mine, other) <= ROUNDING
    assert far(mine, exact(model, ids)) <= 1.5 * far(other, exact(theirs, ids)) <= ROUNDING


def wide(model):
    """The weights that a model computes with, by the layer's name."""
    import bitsandbytes

    from kernelwright import nn

    found = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear4bit):
            found[name] = module.weight.dequantize()
        elif isinstance(module, bitsandbytes.nn.Linear4bit):
            found[name] = bitsandbytes.functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
    assert len(found) == 14  # seven in each of two layers, and not the output's
    return found


def generates(model, ids):
    """Token by token what the model's own logits say."""
    mask = torch.ones_like(ids)
    found = model.generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=False, eos_token_id=None)
    assert found.shape == (2, 13)
    with torch.no_grad():
        scores = model(found[:, :-1]).logits[:, 6:]
    chosen = scores.gather(-1, found[:, 7:, None])[..., 0]
    # With a cache sums are made in another order: what was chosen is the best, or as good.
    assert (chosen >= scores.max(-1).values - 0.02 * scores.abs().max()).all()


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


@pytest.mark.parametrize("way", ["under", "quantizer"])
def test_an_adapter_of_peft(way, request, transformers, checkpoint, load, settings, ids):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    request.getfixturevalue("bnb" if way == "under" else "quantizer")
    request.getfixturevalue(way).enable()
    model = peft.prepare_model_for_kbit_training(load(checkpoint, quantization_config=settings))
    model = peft.get_peft_model(
        model, peft.LoraConfig(target_modules=["q_proj", "down_proj"], r=4, task_type="CAUSAL_LM")
    )
    before = {name: value.detach().clone() for name, value in model.named_parameters() if not value.requires_grad}
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(8):
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        trained = [p for p in model.parameters() if p.requires_grad]
        assert len(trained) == 8
        assert all(p.grad is not None and p.grad.isfinite().all() for p in trained)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 0.5
    for name, value in model.named_parameters():
        if name in before:
            assert torch.equal(value, before[name]), name


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
path, saved = sys.argv[1:]
config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype="bfloat16")
load = transformers.AutoModelForCausalLM.from_pretrained
model = load(path, quantization_config=config, dtype=torch.bfloat16)
model.save_pretrained(saved)
again = load(saved, dtype=torch.bfloat16)
ids = torch.randint(1, 500, (2, 7))
print(torch.equal(model(ids).logits, again(ids).logits), model.num_parameters() > 0, "bitsandbytes" in sys.modules)
"""


def test_without_bitsandbytes(transformers, checkpoint, tmp_path):
    """On a machine that does not have it, or as here cannot import it."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(checkpoint), str(tmp_path / "saved")],
        env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["True", "True", "False"], done.stderr
