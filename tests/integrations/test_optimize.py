# SPDX-License-Identifier: MIT
"""`optimize(model)`: the same logits, weights, names and files from other forward passes, and back."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest
import torch

from tests.integrations.answers import ROUNDING, far, generates
from tests.integrations.families import FAMILIES, small

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]

# Norms and gated MLPs of two layers: with norms of heads, with four norms a layer, an activation that is not SiLU.
EXPECTED = {
    "llama": (5, 2), "qwen2": (5, 2), "qwen3": (9, 2), "gemma2": (9, 2), "gemma3": (13, 2), "mistral": (5, 2),
    "phi": (3, 0), "phi3": (5, 2), "mixtral": (5, 0), "qwen3-moe": (9, 0),
}  # fmt: skip


@pytest.fixture
def optimize(transformers):
    from kernelwright.integrations.transformers import optimize

    return optimize


@pytest.fixture
def uneven(transformers, device):
    """A function of a family: its model, with weights of norms that are not all 1 or 0."""

    def make(family, dtype=torch.float32):
        model = small(transformers, family).to(dtype)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 1:
                    parameter.add_(0.3 * torch.randn_like(parameter))
        return model

    return make


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def apart(y, plain, family):
    """Where a router's two best experts are equal but for rounding, either is right for that token: of a mixture of
    experts half of the tokens count."""
    y, plain = y.double(), plain.double()
    each = (y - plain).norm(dim=-1) / plain.norm(dim=-1)
    return float(each.median()) if family in ("mixtral", "qwen3-moe") else far(y, plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_names_and_back(family, dtype, optimize, uneven, ids):
    model = uneven(family, dtype)
    kinds, before = [type(module) for module in model.modules()], state(model)
    plain = model(ids).logits.detach()
    found = optimize(model)
    norms, mlps = (len(found.replaced.get(kind, ())) for kind in ("norm", "gated MLP"))
    assert (norms, mlps) == EXPECTED[family]
    assert len(found.replaced["rotary embedding"]) == 2
    assert not found.kept
    with torch.no_grad():
        y = model(ids).logits
    assert apart(y, plain, family) <= (1e-5 if dtype is torch.float32 else ROUNDING)
    assert f"{norms} x norm" in str(found)
    assert [type(module) for module in model.modules()] == kinds
    after = model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in after.items())
    assert not optimize(model).replaced  # it is already
    found.undo()
    assert torch.equal(model(ids).logits, plain)
    assert not any("forward" in vars(module) for module in model.modules())


@pytest.mark.parametrize("family", ["llama", "gemma2", "phi"])
def test_gradients_of_all_parameters(family, optimize, uneven, ids):
    model = uneven(family)
    found = []
    for _ in range(2):
        model.zero_grad()
        model(ids, labels=ids).loss.backward()
        found.append({name: value.grad.clone() for name, value in model.named_parameters()})
        optimize(model)
    for name, value in found[0].items():
        assert value.norm() > 0, name
        assert far(found[1][name], value) <= 1e-4, name


def test_a_weight_that_changes_is_seen(optimize, uneven, ids):
    """Gemma's factor is one more than the weight, and kept: a trained or loaded weight must not meet an old one."""
    model = uneven("gemma2").requires_grad_(False)
    optimize(model)
    before = model(ids).logits
    weights = {name: value + 0.5 for name, value in model.state_dict().items() if "layernorm" in name}
    model.load_state_dict(weights, strict=False)
    after = model(ids).logits
    assert far(after, before) > 0.01
    fresh = uneven("gemma2")
    fresh.load_state_dict(model.state_dict())
    assert far(after, fresh(ids).logits.detach()) <= 1e-5


def test_saved_copied_and_pickled(optimize, uneven, transformers, ids, tmp_path, device):
    model = uneven("llama")
    optimize(model)
    with torch.no_grad():
        y = model(ids).logits
        model.save_pretrained(tmp_path)
        again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map={"": device})
        twin = copy.deepcopy(model)
        norm, other = (one.model.norm for one in (model, twin))
        assert other.forward.__self__ is other
        assert other.forward.__func__ is norm.forward.__func__
        pickled = pickle.loads(pickle.dumps(model))  # noqa: S301
        for one in (again, twin, pickled):
            assert far(one(ids).logits, y) <= 1e-5


def test_what_computes_something_else_is_left(optimize):
    """Whatever it is called."""

    class LikeRMSNorm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.variance_epsilon = torch.nn.Parameter(torch.ones(8)), 1e-6

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + self.variance_epsilon) * self.weight

    class HookedRMSNorm(LikeRMSNorm):
        pass

    model = torch.nn.Sequential(LikeRMSNorm(), HookedRMSNorm())
    model[1].forward = lambda x: x
    found = optimize(model)
    assert not found.replaced
    assert list(found.kept) == ["0", "1"]
    assert "computes something else than its name says" in found.kept["0"]
    assert "another library has put a forward pass" in found.kept["1"]
    assert "nothing replaced; 1 left: norm:" in str(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_rope_is_turned_by_the_operator_in_this_model_alone(family, optimize, uneven, ids, monkeypatch):
    """Another model of the family, and its file, keep transformers' own function, to the bit."""
    from kernelwright.integrations import _transformers_rope

    model, other = uneven(family), uneven(family)
    plain, file = other(ids).logits.detach(), sys.modules[type(model).__module__]
    own, count = file.apply_rotary_pos_emb, 0
    operator = _transformers_rope.rope

    def counted(*args, **kwargs):
        nonlocal count
        count += 1
        return operator(*args, **kwargs)

    monkeypatch.setattr(_transformers_rope, "rope", counted)
    found = optimize(model)
    count = 0
    model(ids)
    assert count == 2
    assert file.apply_rotary_pos_emb is own
    assert torch.equal(other(ids).logits, plain)
    found.undo()
    model(ids)
    assert count == 2


def test_a_name_patched_in_the_file_is_seen(optimize, uneven, ids, monkeypatch):
    model = uneven("llama")
    optimize(model)
    calls = []
    file = sys.modules[type(model).__module__]
    attend = file.eager_attention_forward

    def counted(*args, **kwargs):
        calls.append(1)
        return attend(*args, **kwargs)

    monkeypatch.setattr(file, "eager_attention_forward", counted)
    model.set_attn_implementation("eager")
    model(ids)
    assert len(calls) == 2


def turns_halves_otherwise(q, k, cos, sin, unsqueeze_dim=1):
    return q * cos.unsqueeze(unsqueeze_dim), k * sin.unsqueeze(unsqueeze_dim)


def test_a_turn_that_is_none_is_left(optimize):
    names = {"apply_rotary_pos_emb": turns_halves_otherwise, "__builtins__": __builtins__, "__name__": "family"}
    exec("def forward(self, q, k, cos, sin):\n    return apply_rotary_pos_emb(q, k, cos, sin)", names)  # noqa: S102
    attention = type("Attention", (torch.nn.Module,), {"forward": names["forward"]})
    found = optimize(torch.nn.Sequential(attention()))
    assert not found.replaced
    assert found.kept == {"0": "rotary embedding: it computes something else than its name says"}


def test_in_4_bits(optimize, quantizer, checkpoint, load, settings, ids):
    quantizer.enable()
    model = load(checkpoint, quantization_config=settings)
    plain = model(ids).logits.detach()
    found = optimize(model)
    assert len(found.replaced["norm"]) == 5
    assert len(found.replaced["gated MLP"]) == 2
    assert far(model(ids).logits.detach(), plain) <= ROUNDING
    generates(model, ids)


def test_compiled_it_is_the_modules_own(optimize, uneven, ids, device):
    from torch._dynamo.testing import CompileCounterWithBackend

    torch.set_default_device(None)
    model = uneven("llama").to(device)
    with torch.no_grad():
        plain = model(ids).logits
    optimize(model)
    counter = CompileCounterWithBackend("eager")
    torch.compiler.reset()
    with torch.no_grad():
        y = torch.compile(model, backend=counter, fullgraph=True)(ids).logits
    assert counter.frame_count == 1
    assert "kernelwright" not in str(counter.graphs[0].graph)
    torch.testing.assert_close(y, plain)
