# SPDX-License-Identifier: MIT
"""QLoRA as peft does it, on each way in: gradients through the frozen base, and training."""

from __future__ import annotations

import pytest
import torch

from tests.integrations.answers import ROUNDING, far, logits, wide

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(params=["under", "quantizer"])
def way(request, transformers):
    """kernelwright under bitsandbytes, and kernelwright's layers."""
    request.getfixturevalue("bnb" if request.param == "under" else "quantizer")
    request.getfixturevalue(request.param).enable()
    return request.param


@pytest.fixture
def adapted(peft):
    def adapt(model):
        # Both halves random: where one is 0, as peft has it at first, the other's gradient is 0.
        config = peft.LoraConfig(
            target_modules=["q_proj", "down_proj"], r=4, task_type="CAUSAL_LM", init_lora_weights=False
        )
        return peft.get_peft_model(model, config)

    return adapt


def trained(model):
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def test_gradients_are_those_of_a_plain_model(way, peft, adapted, checkpoint, load, settings, ids):
    """The same weights as the codes say, in float32, in torch's own layers."""
    settings.bnb_4bit_compute_dtype = torch.float32
    model, plain = (load(checkpoint, dtype=torch.float32, quantization_config=settings) for _ in range(2))
    for name, weight in wide(plain).items():
        layer = torch.nn.Linear(*weight.shape[::-1], bias=False)
        layer.weight = torch.nn.Parameter(weight, requires_grad=False)
        plain.set_submodule(name, layer)
    model, plain = adapted(model), adapted(plain)
    peft.set_peft_model_state_dict(plain, peft.get_peft_model_state_dict(model))
    found, expected = trained(model), trained(plain)
    assert len(found) == 8
    for one in (model, plain):
        one(ids, labels=ids).loss.backward()
    for name, value in found.items():
        assert expected[name].grad.norm() > 0, name
        assert far(value.grad, expected[name].grad) <= 1e-4, name
    assert far(logits(model, ids), logits(plain, ids)) <= 1e-5


def test_an_adapter_learns(way, peft, adapted, checkpoint, load, settings, ids):
    model = adapted(peft.prepare_model_for_kbit_training(load(checkpoint, quantization_config=settings)))
    before = {name: value.detach().clone() for name, value in model.named_parameters() if not value.requires_grad}
    optimizer = torch.optim.AdamW(trained(model).values(), lr=1e-2)
    losses = []
    for _ in range(8):
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in trained(model).values())
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 0.5
    for name, value in model.named_parameters():
        if name in before:
            assert torch.equal(value, before[name]), name


def test_prepared_as_for_bitsandbytes(way, peft, adapted, checkpoint, load, settings, ids):
    """Activations are computed again in the backward pass, which is what lets a long text fit; the gradients stay."""
    model = peft.prepare_model_for_kbit_training(load(checkpoint, quantization_config=settings))
    assert model.is_gradient_checkpointing
    model = adapted(model).train()
    found = []
    for reentrant in (None, True, False):
        if reentrant is None:
            model.gradient_checkpointing_disable()
        else:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        model.zero_grad()
        model(ids, labels=ids).loss.backward()
        found.append({name: value.grad.clone() for name, value in trained(model).items()})
    assert len(found[0]) == 8
    for name, value in found[0].items():
        assert value.norm() > 0, name
        for again in found[1:]:
            assert far(again[name], value) <= 1e-6, name


def test_an_adapter_is_merged_into_a_dequantized_model(quantizer, adapted, checkpoint, load, settings, ids):
    """peft adds the adapter to the weight, which codes do not allow."""
    from kernelwright import nn

    quantizer.enable()
    model = adapted(load(checkpoint, quantization_config=settings))
    y = logits(model, ids)
    merged = nn.dequantize_(model).merge_and_unload()
    assert type(merged.model.layers[0].mlp.down_proj) is torch.nn.Linear
    assert far(logits(merged, ids), y) <= ROUNDING


def test_a_model_that_has_an_adapter_is_quantized_around_it(adapted, checkpoint, load, ids):
    """One layer inside another: the base alone is in 4 bits, and the adapter learns on."""
    from kernelwright import nn

    model = adapted(load(checkpoint, dtype=torch.float32))
    before = set(trained(model))
    nn.quantize_(model, skip=["lora_A", "lora_B", "lm_head"])
    assert set(trained(model)) == before
    base, adapter = (
        model.get_submodule(f"model.model.layers.0.mlp.down_proj.{name}") for name in ("base_layer", "lora_A")
    )
    assert isinstance(base, nn.Linear4bit)
    assert type(adapter["default"]) is torch.nn.Linear
    model(ids, labels=ids).loss.backward()
    assert all(value.grad.norm() > 0 for value in trained(model).values())
