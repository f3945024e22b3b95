# SPDX-License-Identifier: MIT
"""transformers' BitNet models on kernelwright's layers: a tiny one with random weights, from the file to the file."""

from __future__ import annotations

import pytest
import torch

from tests.integrations.bitnet import LAYERS, stored

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]

WAYS = [("bitlinear", "offline"), ("autobitlinear", "offline"), ("autobitlinear", "online")]


@pytest.fixture(autouse=True)
def eager(without_compiling):
    return without_compiling


@pytest.fixture(params=WAYS, ids="-".join)
def way(request):
    return request.param


@pytest.fixture
def saved(transformers, accelerate, way, tmp_path):
    """A checkpoint as transformers keeps it: packed, or in floats to train."""
    torch.manual_seed(4)
    return stored(transformers, tmp_path / "stored", *way)


@pytest.fixture
def enabled(transformers, accelerate):
    from kernelwright.integrations import transformers as kernels

    kernels.enable()
    yield kernels
    kernels.disable()


def load(transformers, path, dtype=torch.bfloat16):
    return transformers.BitNetForCausalLM.from_pretrained(path, dtype=dtype)


def kinds(model):
    return {type(module).__name__ for name, module in model.named_modules() if name.endswith(LAYERS)}


IDS = torch.tensor([[1, 17, 42, 3, 96, 5]])


def test_a_whole_model(transformers, saved, way, tmp_path):
    from safetensors.torch import load_file

    from kernelwright.integrations import transformers as kernels
    from kernelwright.nn import BitLinear

    theirs = load(transformers, saved)
    assert kinds(theirs) <= {"BitLinear", "AutoBitLinear"}
    with torch.no_grad():
        expected = theirs(IDS).logits.float()
    kernels.enable()
    try:
        ours = load(transformers, saved)
    finally:
        kernels.disable()
    layers = [module for name, module in ours.named_modules() if name.endswith(LAYERS)]
    assert len(layers) == 14
    assert all(isinstance(layer, BitLinear) for layer in layers)
    with torch.no_grad():
        found = ours(IDS).logits.float()
    assert (found - expected).norm() <= 0.05 * expected.norm()
    tokens = ours.generate(IDS, max_new_tokens=5, do_sample=False)
    assert tokens.shape == (1, 11)
    stored, kept = load_file(saved / "model.safetensors"), ours.state_dict()
    assert set(kept) == set(stored)
    for name, value in stored.items():
        assert torch.equal(kept[name], value), name
        assert kept[name].dtype == value.dtype, name


def test_saved_and_loaded_back(transformers, saved, enabled, tmp_path):
    ours = load(transformers, saved)
    with torch.no_grad():
        expected = ours(IDS).logits
    ours.save_pretrained(tmp_path / "again")
    with torch.no_grad():
        assert torch.equal(load(transformers, tmp_path / "again")(IDS).logits, expected)
    enabled.disable()
    with torch.no_grad():
        found = load(transformers, tmp_path / "again")(IDS).logits.float()
    assert (found - expected.float()).norm() <= 0.05 * expected.float().norm()


@pytest.mark.parametrize("way", [("autobitlinear", "online")], indirect=True, ids=["online"])
def test_a_step_of_training(transformers, saved, enabled):
    model = load(transformers, saved, torch.float32).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = model(IDS, labels=IDS).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weight = model.model.layers[0].mlp.up_proj.weight
    assert weight.grad is not None
    assert weight.grad.abs().sum() > 0
    assert losses[-1] < losses[0]


def test_generate_compiles_it(transformers, saved, enabled):
    """As generate() does for a static cache where the quantizer says that it may: one graph, the same numbers."""
    ours = load(transformers, saved).eval()
    assert ours.hf_quantizer.is_compileable
    with torch.compiler.set_stance("default"), torch.no_grad():
        compiled = torch.compile(ours.forward, backend="eager", fullgraph=True)
        assert torch.equal(compiled(IDS).logits, ours(IDS).logits)
