# SPDX-License-Identifier: MIT
"""attn_implementation="kernelwright": small models with random weights answer as they do by transformers' own attention."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.integrations.answers import far
from tests.integrations.families import FAMILIES, SIZES, small

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]
NEAR = 1e-5  # of logits in float32, as a share of all
SINKS = {"head_dim": 32, "num_local_experts": 2, "num_experts_per_tok": 2, "sliding_window": 8}


@pytest.fixture
def ours(transformers):
    from kernelwright.integrations import transformers as ours

    ours.register_attention()
    return ours


def gpt_oss(transformers):
    config = transformers.GptOssConfig(**{**SIZES, **SINKS})
    config._attn_implementation = "eager"
    model = transformers.GptOssForCausalLM(config).eval()
    for layer in model.model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks)
    return model


def both(model, call):
    """By transformers' own and by ours; eager is the one that has all features."""
    answers = []
    for name in ("eager", "kernelwright"):
        model.set_attn_implementation(name)
        assert model.config._attn_implementation == name
        with torch.no_grad():
            answers.append(call(model))
    return answers


def padded(ids):
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    return mask


@pytest.mark.parametrize("family", [*FAMILIES, "gpt-oss"])
@pytest.mark.parametrize("length", [7, 40], ids=["short", "beyond the window"])
def test_logits(ours, transformers, device, seed, family, length):
    model = gpt_oss(transformers) if family == "gpt-oss" else small(transformers, family)
    ids = torch.randint(1, 500, (2, length))
    mine, theirs = reversed(both(model, lambda m: m(ids).logits.double()))
    assert far(mine, theirs) <= NEAR
    mask = padded(ids)
    mine, theirs = (
        found[mask == 1] for found in reversed(both(model, lambda m: m(ids, attention_mask=mask).logits.double()))
    )
    assert far(mine, theirs) <= NEAR


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt-oss", "mistral"])
@pytest.mark.parametrize("cache", [None, "static"])
def test_generation(ours, transformers, device, seed, family, cache):
    model = gpt_oss(transformers) if family == "gpt-oss" else small(transformers, family)
    ids = torch.randint(3, 500, (2, 11))
    options = {
        "max_new_tokens": 12,
        "do_sample": False,
        "eos_token_id": None,
        "cache_implementation": cache,
        "disable_compile": True,
    }
    found = both(model, lambda m: m.generate(ids, attention_mask=padded(ids), **options))
    assert torch.equal(*found)


def test_packed_sequences_by_positions(ours, transformers, device, seed):
    model = small(transformers, "llama")
    ids, places = torch.randint(1, 500, (1, 12)), torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3]])
    mine, theirs = reversed(both(model, lambda m: m(ids, position_ids=places, use_cache=False).logits.double()))
    assert far(mine, theirs) <= NEAR


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_packed_sequences_by_their_starts(ours, transformers, device, seed, family):
    """As collators without padding give them; each sequence by itself answers the same."""
    model = small(transformers, family, **({"sliding_window": 3} if family == "mistral" else {}))
    model.set_attn_implementation("kernelwright")
    ids, starts = torch.randint(1, 500, (1, 12)), [0, 5, 8, 12]
    places = torch.cat([torch.arange(b - a) for a, b in itertools.pairwise(starts)])[None]
    held = torch.tensor(starts, dtype=torch.int32)
    with torch.no_grad():
        found = model(
            ids, position_ids=places, use_cache=False, cu_seq_lens_q=held, cu_seq_lens_k=held, max_length_q=5,
            max_length_k=5,
        ).logits.double()  # fmt: skip
        model.set_attn_implementation("eager")
        alone = [model(ids[:, a:b]).logits.double() for a, b in itertools.pairwise(starts)]
    assert far(found, torch.cat(alone, 1)) <= NEAR


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt-oss"])
def test_training(ours, transformers, device, seed, family):
    model = (gpt_oss(transformers) if family == "gpt-oss" else small(transformers, family)).train()
    ids = torch.randint(1, 500, (2, 9))
    mask = padded(ids)
    labels = ids.masked_fill(mask == 0, -100)  # what padding answers is nobody's concern
    labels[:, 1:][mask[:, :-1] == 0] = -100  # and so is what follows it
    gradients = []
    for name in ("eager", "kernelwright"):
        model.set_attn_implementation(name)
        model.zero_grad()
        model(ids, labels=labels, attention_mask=mask).loss.backward()
        gradients.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    theirs, mine = gradients
    assert theirs.keys() == mine.keys()
    for name, value in theirs.items():
        assert (mine[name] - value).norm() <= 1e-4 * value.norm() + 1e-7, name


def test_dropout_is_refused_by_name(ours, transformers, device, seed):
    from kernelwright.errors import Unsupported

    model = small(transformers, "llama", attention_dropout=0.1).train()
    model.set_attn_implementation("kernelwright")
    with pytest.raises(Unsupported, match="attention_dropout=0"):
        model(torch.randint(1, 500, (2, 9)))


def test_loading_a_model_with_it(ours, transformers, checkpoint, load, ids):
    model = load(checkpoint, attn_implementation="kernelwright")
    assert model.config._attn_implementation == "kernelwright"
    with torch.no_grad():
        found = model(ids).logits.double()
        model.set_attn_implementation("sdpa")
        assert far(found, model(ids).logits.double()) <= 3e-2
