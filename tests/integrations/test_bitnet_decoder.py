# SPDX-License-Identifier: MIT
"""`decoder(model)`: the tokens that transformers generates with the same layers, and what is refused."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from kernelwright import errors
from kernelwright.integrations import _bitnet_step
from tests.integrations.answers import ROUNDING
from tests.integrations.test_joined import Called

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True)
def eager(without_compiling):
    return without_compiling


@pytest.fixture
def kernels(bitnet_kernels):
    return bitnet_kernels


@pytest.fixture
def model(kernels, bitnet_models, device):
    """After optimize(); on the CPU in float32, where no two logits are one after rounding."""
    found = bitnet_models(wide=device == "cpu")
    kernels.optimize(found)
    return found


@pytest.fixture
def ids(seed):
    return torch.randint(3, 97, (2, 7))


def likely(model, tokens, mask, rows):
    """Each token behind the prompts is the likeliest one, or so near to it that rounding decides."""
    for at in range(rows, tokens.shape[1]):
        kept = torch.cat([mask, mask.new_ones(len(mask), at - rows)], -1)
        places = (kept.cumsum(-1) - 1).clamp(min=0)
        with torch.no_grad():
            logits = model(tokens[:, :at], attention_mask=kept, position_ids=places).logits[:, -1].float()
        behind = logits.amax(-1) - logits.gather(1, tokens[:, at : at + 1])[:, 0]
        assert (behind <= ROUNDING * logits.std(-1)).all(), (at, behind)


def test_the_tokens_of_transformers(kernels, model, ids):
    mask = torch.ones_like(ids)
    found = kernels.decoder(model).generate(ids, max_new_tokens=20, eos_token_id=None)
    assert found.shape == (2, 27)
    assert found.dtype is ids.dtype
    likely(model, found, mask, 7)
    theirs = model.generate(ids, attention_mask=mask, max_new_tokens=20, do_sample=False, eos_token_id=None)
    assert torch.equal(found[:, :8], theirs[:, :8])  # of the model's own pass


def test_prompts_of_several_lengths(kernels, model, ids):
    """Padding is not in the cache: each row is what it would be alone."""
    decoder, mask = kernels.decoder(model), torch.ones_like(ids)
    mask[0, :3] = 0
    padded = torch.where(mask != 0, ids, 0)
    found = decoder.generate(padded, attention_mask=mask, max_new_tokens=12, eos_token_id=None)
    likely(model, found, mask, 7)
    step = decoder._step
    assert step.lengths.tolist() == [4 + 11, 7 + 11]
    other = padded.clone()
    other[0, :3] = 50
    assert torch.equal(
        decoder.generate(other, attention_mask=mask, max_new_tokens=12, eos_token_id=None)[:, 7:], found[:, 7:]
    )
    assert decoder._step is step  # memory is used again
    longer = decoder.generate(ids, max_new_tokens=300, eos_token_id=None)
    assert longer.shape == (2, 307)
    assert decoder._step is not step


def test_a_row_that_ends_is_padded(kernels, model, ids):
    decoder = kernels.decoder(model)
    free = decoder.generate(ids, max_new_tokens=20, eos_token_id=None)
    end = int(free[0, 9])
    found = decoder.generate(ids, max_new_tokens=20, eos_token_id=end, pad_token_id=0)
    ends = [next((at for at in range(7, 27) if row[at] == end), 26) for row in free.tolist()]
    assert found.shape[1] == max(ends) + 1
    for row, mine, last in zip(free, found, ends, strict=True):
        assert torch.equal(mine[: last + 1], row[: last + 1])
        assert not mine[last + 1 :].any()
    several = decoder.generate(ids, max_new_tokens=20, eos_token_id=[int(free[0, 7]), int(free[1, 7])])
    assert several.shape[1] == 8


def test_sampled_as_transformers_samples(kernels, model, ids):
    decoder, options = kernels.decoder(model), {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.9}
    torch.manual_seed(1)
    found = decoder.generate(ids, max_new_tokens=1, eos_token_id=None, **options)
    torch.manual_seed(1)
    theirs = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=1, eos_token_id=None, **options)
    assert torch.equal(found, theirs)
    torch.manual_seed(1)
    first = decoder.generate(ids, max_new_tokens=20, eos_token_id=None, **options)
    torch.manual_seed(1)
    assert torch.equal(decoder.generate(ids, max_new_tokens=20, eos_token_id=None, **options), first)
    greedy = decoder.generate(ids, max_new_tokens=20, eos_token_id=None)
    few = decoder.generate(ids, max_new_tokens=20, eos_token_id=None, do_sample=True, top_k=1)
    assert torch.equal(few, greedy)


def test_six_calls_a_layer(kernels, model, ids):
    step = _bitnet_step.Step(model, 2, 256, torch.zeros(0, dtype=torch.int64), 0)
    with torch.no_grad(), Called() as seen:
        step._step()
    names = {name.removeprefix("kernelwright::"): n for name, n in seen.names.items() if "kernelwright::" in name}
    assert Counter(names) == Counter(linear_ternary=8, attention_decode=2, relu2_gated=2, rms_norm=1)


def test_a_weight_that_changes_is_seen(kernels, model, ids):
    decoder = kernels.decoder(model)
    before = decoder.generate(ids, max_new_tokens=8, eos_token_id=None)
    layer = model.model.layers[0].mlp.down_proj
    layer.load_state_dict(model.model.layers[1].mlp.down_proj.state_dict())
    found = decoder.generate(ids, max_new_tokens=8, eos_token_id=None)
    likely(model, found, torch.ones_like(ids), 7)
    assert before.shape == found.shape


def test_what_is_refused(kernels, model, bitnet_models, ids):
    decoder = kernels.decoder(model)
    with pytest.raises(errors.Unsupported, match=r"generate: num_beams: not known here; model.generate\(\) knows"):
        decoder.generate(ids, max_new_tokens=2, num_beams=2)
    with pytest.raises(errors.Unsupported, match="padded elsewhere than on the left"):
        decoder.generate(ids, max_new_tokens=2, attention_mask=torch.ones_like(ids).tril(3))
    with pytest.raises(errors.InvalidArgument, match="max_new_tokens is 0"):
        decoder.generate(ids, max_new_tokens=0)
    model.generation_config.repetition_penalty = 1.5
    with pytest.raises(errors.Unsupported, match=r"repetition_penalty=1\.5, which is not known"):
        decoder.generate(ids, max_new_tokens=2)
    with pytest.raises(
        errors.Unsupported, match=r"layer 0 is not of packed BitLinears .* call optimize\(model\) first"
    ):
        kernels.decoder(bitnet_models())
    with pytest.raises(errors.Unsupported, match="it is a Linear, and only BitNetForCausalLM is known"):
        kernels.decoder(torch.nn.Linear(2, 2))
    model.train()
    with pytest.raises(errors.Unsupported, match="training mode"):
        decoder.generate(ids, max_new_tokens=2)
    model.eval().model.norm.register_forward_hook(lambda *_: None)
    with pytest.raises(errors.Unsupported, match=r"model\.norm has hooks"):
        kernels.decoder(model)
