# SPDX-License-Identifier: MIT
"""`generate()` with a static cache compiles models of our quantizer: one graph, none for a further token.

On the CPU transformers compiles only if asked to; the graphs are run as they are, so that no C++ compiler is needed. On a
GPU nothing is asked for: what transformers does by itself ends in CUDA graphs.
"""

from __future__ import annotations

import pytest
import torch

from tests.integrations.families import FAMILIES, saved

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True)
def counted(ids):
    """torch.compile forgets what it knew, and counts anew. No default device: torch.compile would see a mode."""
    from torch._dynamo.utils import counters

    torch.set_default_device(None)
    torch.compiler.reset()
    counters.clear()
    yield counters
    torch.compiler.reset()


@pytest.fixture
def settings(transformers):
    """One type is enough: the layers are the same."""
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


@pytest.fixture
def generated(transformers, device):
    """A function of a model: the tokens it makes with a static cache, in so many calls of generate()."""

    def generate(model, ids, count=1, **options):
        if device == "cpu":
            how = transformers.CompileConfig(fullgraph=True, backend="aot_eager", mode=None)
            how._compile_all_devices = True
            options["compile_config"] = how
        mask = torch.ones_like(ids)
        for _ in range(count):
            found = model.generate(
                ids, attention_mask=mask, max_new_tokens=8, do_sample=False, eos_token_id=None,
                cache_implementation="static", **options,
            )  # fmt: skip
        return found

    return generate


def graphs(counted):
    """How many there are, having seen that none is a part of what should be one."""
    assert not counted["graph_break"]
    return counted["stats"]["unique_graphs"]


@pytest.mark.parametrize("family", FAMILIES)
def test_as_many_graphs_as_without_quantizing(
    family, transformers, quantizer, settings, load, generated, counted, ids, tmp_path
):
    """Some models need two, for tokens before and after a sliding window is full; and that is all."""
    path = saved(transformers, family, tmp_path)
    plain = load(path)
    generated(plain, ids)
    expected = graphs(counted)
    assert expected in (1, 2)
    torch.compiler.reset()
    counted.clear()
    quantizer.enable()
    model = load(path, quantization_config=settings)
    assert model.hf_quantizer.is_compileable
    found = generated(model, ids)
    assert graphs(counted) == expected
    chosen_by_its_own_logits(model, ids, found)
    generated(model, ids, 2)
    assert graphs(counted) == expected  # no further one for a second text
    if ids.is_cuda:
        assert not counted["inductor"]["cudagraph_skips"]


def chosen_by_its_own_logits(model, ids, found):
    """Each token is the best of what the model says without compiling, or as good within rounding."""
    with torch.no_grad():
        scores = model(found[:, :-1]).logits[:, ids.shape[1] - 1 :]
    chosen = scores.gather(-1, found[:, ids.shape[1] :, None])[..., 0]
    assert (chosen >= scores.max(-1).values - 0.02 * scores.abs().max()).all()


def test_with_bitsandbytes_own_quantizer_transformers_does_not(
    bnb, checkpoint, load, settings, generated, counted, ids, device
):
    """What the graphs above are counted against: where transformers may not compile, there is none."""
    generated(load(checkpoint, quantization_config=settings), ids)
    assert graphs(counted) == 0


def test_not_where_a_mode_would_cut_the_graph(quantizer, checkpoint, load, settings, generated, counted, ids, device):
    quantizer.enable()
    model = load(checkpoint, quantization_config=settings)
    with torch.device(device):
        assert not model.hf_quantizer.is_compileable
        chosen_by_its_own_logits(model, ids, generated(model, ids))
    assert graphs(counted) == 0
    assert model.hf_quantizer.is_compileable


def test_an_adapter_on_top(peft, quantizer, checkpoint, load, settings, generated, counted, ids):
    quantizer.enable()
    config = peft.LoraConfig(target_modules="all-linear", r=4, task_type="CAUSAL_LM", init_lora_weights=False)
    model = peft.get_peft_model(load(checkpoint, quantization_config=settings), config).eval()
    found = generated(model, ids, 2)
    assert graphs(counted) == 1
    chosen_by_its_own_logits(model, ids, found)
