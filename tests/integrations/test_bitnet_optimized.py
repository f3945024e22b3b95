# SPDX-License-Identifier: MIT
"""`optimize(model)` of a BitNet model: fewer products of packed layers, norms within their quantization."""

from __future__ import annotations

import copy
import pickle
from collections import Counter

import pytest
import torch

from kernelwright.nn import BitLinear, _decoder, _joined
from tests.integrations.answers import ROUNDING, far
from tests.integrations.test_joined import Called, called, logits, same, state

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]

OURS = "kernelwright::"
APART = Counter({"quantize_rows_int8": 14, "matmul_ternary": 14})
TOGETHER = Counter({"quantize_rows_int8": 8, "matmul_ternary": 8, "rope": 2, "relu2_gated": 2, "rms_norm": 1})
"""Of two layers: four products each, and the last norm, behind which there is none."""
ATTENTION = ("q_proj", "k_proj", "v_proj")


@pytest.fixture(autouse=True)
def eager(without_compiling):
    return without_compiling


@pytest.fixture
def optimize(bitnet_kernels):
    return bitnet_kernels.optimize


@pytest.fixture
def make(bitnet_models):
    return bitnet_models


@pytest.fixture
def ids(seed):
    return torch.randint(3, 97, (2, 7))


def ours(model, ids):
    return Counter({name.removeprefix(OURS): n for name, n in called(model, ids).items() if name.startswith(OURS)})


def first(model):
    return model.model.layers[0]


@pytest.mark.parametrize("linear_class", ["autobitlinear", "bitlinear"])
def test_fewer_calls_the_same_within_rounding(linear_class, make, optimize, ids):
    model = make(linear_class)
    plain, before = logits(model, ids), state(model)
    exact = logits(make(linear_class, wide=True), ids)
    assert ours(model, ids) == APART
    found = optimize(model)
    layers = [f"model.layers.{layer}" for layer in (0, 1)]
    assert found.replaced["decoder layer"] == layers
    assert sorted(found.merged) == sorted(f"{layer}.{part}" for layer in layers for part in ("self_attn", "mlp"))
    assert "2 with q, k and v as one weight; 2 with gate and up as one weight" in str(found)
    assert not found.apart
    assert not found.kept
    assert ours(model, ids) == TOGETHER
    here = logits(model, ids)
    assert far(here, plain) <= ROUNDING
    assert far(here, exact) <= 1.5 * far(plain, exact)
    same(model, before)
    optimize(model)
    assert torch.equal(logits(model, ids), here)
    found.undo()
    assert ours(model, ids) == APART
    assert torch.equal(logits(model, ids), plain)
    assert not any(getattr(module, "joined", None) for module in model.modules())


def test_products_have_the_bits_of_their_layers(make, optimize, ids):
    model = make()
    optimize(model)
    attention, mlp = first(model).self_attn, first(model).mlp
    for layers in ([getattr(attention, name) for name in ATTENTION], [mlp.gate_proj, mlp.up_proj]):
        assert len({layer._factor().item() for layer in layers}) == len(layers)
        for rows in (1, 3, 70):
            x = torch.randn(rows, 64, dtype=torch.bfloat16)
            with torch.no_grad():
                one, each = _joined.product(layers, x), [layer(x) for layer in layers]
            assert torch.equal(one, torch.cat(each, -1))
    # Without gradients of x, and with: one product too.
    x = torch.randn(3, 64, requires_grad=True)
    layers = [mlp.gate_proj, mlp.up_proj]
    one, each = _joined.product(layers, x), torch.cat([layer(x) for layer in layers], -1)
    grad = torch.randn_like(one)
    assert torch.equal(one, each)
    torch.testing.assert_close(*(torch.autograd.grad(y, x, grad)[0] for y in (one, each)), atol=1e-4, rtol=1e-4)


def test_generated_token_by_token(make, optimize, ids):
    model = make()
    optimize(model)
    found = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False, eos_token_id=None
    )
    assert found.shape == (2, 12)
    with torch.no_grad():
        for at in range(7, 12):
            assert far(model(found[:, :at]).logits[:, -1].double(), model(found).logits[:, at - 1].double()) <= ROUNDING


@pytest.mark.parametrize("checkpointed", [False, True])
def test_gradients_reach_what_is_before_it(checkpointed, make, optimize, ids):
    """A norm that learns keeps its own pass."""
    model = make(wide=True).train()
    if checkpointed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    x = model.get_input_embeddings()(ids).detach().requires_grad_()
    norms = [value for name, value in model.named_parameters() if name.endswith("norm.weight")]
    found, calls = [], []
    for _ in range(2):
        with Called() as seen:
            grads = torch.autograd.grad(model(inputs_embeds=x, labels=ids).loss, [x, *norms])
        found.append(torch.cat([grad.double().flatten() for grad in grads]))
        calls.append(seen.names[f"{OURS}matmul_ternary"])
        optimize(model)
    assert found[0].norm() > 0
    assert far(found[1], found[0]) <= ROUNDING
    assert calls == ([28, 16] if checkpointed else [14, 8])  # once more in the backward pass


def test_saved_and_loaded(make, optimize, ids, tmp_path, device):
    model = make()
    model.save_pretrained(tmp_path / "apart")
    optimize(model)
    model.save_pretrained(tmp_path / "together")
    torch.save(model.state_dict(), tmp_path / "together.pt")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "apart" / name).read_bytes() == (tmp_path / "together" / name).read_bytes()
    here, again, loaded = logits(model, ids), make(path=tmp_path / "together"), make()
    optimize(again)
    assert torch.equal(logits(again, ids), here)
    for parameter in loaded.parameters():
        parameter.data.zero_()
    optimize(loaded)
    loaded.load_state_dict(torch.load(tmp_path / "together.pt", map_location=device))
    assert first(loaded).self_attn.q_proj.joined.weight is None  # the memory is not held
    optimize(loaded)
    assert torch.equal(logits(loaded, ids), here)
    assert ours(loaded, ids) == TOGETHER


def test_what_changes_a_weight_is_seen(make, optimize, ids):
    model, other = make(), make().model.layers[1].self_attn.k_proj
    optimize(model)
    layer, before = first(model).self_attn.k_proj, logits(model, ids)
    layer.load_state_dict(other.state_dict())
    after = logits(model, ids)
    assert not torch.equal(after, before)
    optimize(model)
    assert ours(model, ids) == TOGETHER
    assert far(logits(model, ids), after) <= ROUNDING
    together = first(model).self_attn.v_proj.packed.data_ptr()
    model.to(torch.bfloat16)
    assert first(model).self_attn.v_proj.packed.data_ptr() == together
    assert ours(model, ids) == TOGETHER
    layer._buffers["packed"] = layer.packed.clone()  # moved by hand
    assert ours(model, ids)["matmul_ternary"] == 10


def test_a_copy_has_a_memory_of_its_own(make, optimize, ids):
    model = make()
    optimize(model)
    here = logits(model, ids)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 - made here
        optimize(twin)
        assert ours(twin, ids) == TOGETHER
        assert torch.equal(logits(twin, ids), here)
        first(twin).self_attn.q_proj.packed.zero_()
        assert not torch.equal(logits(twin, ids), here)
        assert torch.equal(logits(model, ids), here)
        twin.to("meta")
        assert first(twin).self_attn.q_proj.joined.weight is None


@pytest.mark.parametrize(
    "place", ["input_layernorm", "self_attn", "mlp", "self_attn.attn_sub_norm", "self_attn.o_proj"]
)
def test_a_hook_sees_what_it_saw(place, make, optimize, ids):
    """What goes in and comes out of the module that is watched."""
    model, seen = make(), []

    def watch(_, args, kwargs, result):
        given = args[0] if args else kwargs["hidden_states"]
        seen.append([one.double() for one in (given, result[0] if isinstance(result, tuple) else result)])

    first(model).get_submodule(place).register_forward_hook(watch, with_kwargs=True)
    logits(model, ids)
    optimize(model)
    logits(model, ids)
    assert len(seen) == 2
    assert all(far(after, before) <= ROUNDING for before, after in zip(*seen, strict=True))


def test_a_hook_on_a_layer_and_hidden_states_that_are_asked_for(make, optimize, ids):
    model, seen = make(), []
    with torch.no_grad():
        plain = model(ids, output_hidden_states=True).hidden_states
    optimize(model)
    with torch.no_grad():
        found = model(ids, output_hidden_states=True).hidden_states
    assert len(found) == len(plain) == 3
    assert all(far(here.double(), there.double()) <= ROUNDING for here, there in zip(found, plain, strict=True))
    first(model).self_attn.k_proj.register_forward_hook(lambda *_: seen.append(1))
    logits(model, ids)
    assert seen == [1]


def test_left_with_a_reason(make, optimize, ids):
    training = make(mode="online")
    found = optimize(training)
    assert set(found.apart.values()) == {
        f"{layers} apart: its weights are in floats, and may train" for layers in ("q, k and v", "gate and up")
    }
    assert "decoder layer" not in found.replaced
    model = make()
    attention, other = first(model).self_attn, model.model.layers[1]
    attention.k_proj.group = object()
    first(model).mlp.up_proj.register_forward_hook(lambda *_: None)
    other.self_attn.v_proj.bias = torch.nn.Parameter(torch.zeros(32))
    values = torch.randint(-1, 2, (24, 64), dtype=torch.int8)
    other.mlp.gate_proj, other.mlp.up_proj = (BitLinear.from_values(values, torch.ones(1)) for _ in range(2))
    other.mlp.down_proj = BitLinear.from_values(values.t(), torch.ones(1))
    other.mlp.ffn_sub_norm = type(other.mlp.ffn_sub_norm)(24).to(torch.bfloat16)
    found = optimize(model)
    assert not found.merged
    reasons = [found.apart[f"model.layers.{layer}.{part}"] for layer in (0, 1) for part in ("self_attn", "mlp")]
    expected = ("sharded over processes", "hooks into", "it has a bias", "does not end with a group of 16 rows")
    assert all(words in reason for words, reason in zip(expected, reasons, strict=True))


def test_a_norm_of_another_kind_and_autocast_keep_their_own_pass(make, optimize, ids):
    model, other = make(), make()
    for each in (model, other):
        first(each).input_layernorm.variance_epsilon = 0.5  # an eps is taken along
    optimize(model)
    assert far(logits(model, ids), logits(other, ids)) <= ROUNDING
    with torch.autocast("cuda" if ids.is_cuda else "cpu", torch.bfloat16):
        assert ours(model, ids)["rms_norm"] > 1
    x, mlp, plain = torch.randn(3, 64, dtype=torch.bfloat16), first(model).mlp, first(other).mlp
    for each in (mlp, plain):
        each.ffn_sub_norm.to(torch.float32)  # its result is of its weight's type
    with torch.no_grad():
        found, expected = mlp(x), plain(x)
    assert found.dtype is expected.dtype is torch.float32
    assert far(found, expected) <= ROUNDING


def test_another_pass_than_is_known_is_left(make, optimize, ids):
    """A decoder layer that does something else with what its norm gives is no such layer."""
    model = make()
    kind = type(first(model))

    class Other(kind):
        def forward(self, hidden_states, **kwargs):
            residual = hidden_states
            hidden_states = self.input_layernorm(hidden_states)
            found, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
            hidden_states = self.post_attention_layernorm(residual + found + hidden_states)
            return self.mlp(hidden_states)

    assert _decoder.is_decoder(first(model))
    first(model).__class__ = Other
    assert not _decoder.is_decoder(first(model))
    plain = logits(model, ids)
    found = optimize(model)
    assert found.replaced["decoder layer"] == ["model.layers.1"]
    assert far(logits(model, ids), plain) <= ROUNDING
    assert ours(model, ids)["rms_norm"] == 3


def test_compiled_it_is_one_graph_of_as_few_products(make, optimize, ids):
    from torch._dynamo.testing import CompileCounterWithBackend

    torch.set_default_device(None)
    model = make()
    optimize(model)
    plain, counter = logits(model, ids), CompileCounterWithBackend("aot_eager")
    torch.compiler.reset()
    with torch.compiler.set_stance("default"), torch.no_grad():
        compiled = torch.compile(model, backend=counter, fullgraph=True)
        assert far(compiled(ids).logits.double(), plain) <= ROUNDING
        compiled(ids.flip(0))
    assert counter.frame_count == 1
    graph = counter.graphs[0].graph
    names = Counter(str(node.target).split(".")[1] for node in graph.nodes if "kernelwright." in str(node.target))
    assert names == {"quantize_rows_int8": 8, "matmul_ternary": 8}
    places = [node.meta["tensor_dict"] for node in graph.nodes if node.op == "placeholder" and "joined" in node.name]
    assert len(places) == 2 * 4  # codes and scales
    assert all(place["_dynamo_static_input_type"] == "unguarded" for place in places)  # CUDA graphs copy nothing


def test_fuse_does_it_too(make, optimize, ids):
    from kernelwright.nn import fuse_, unfuse_

    model = make()
    plain = logits(model, ids)
    fuse_(model)
    assert ours(model, ids) == TOGETHER - Counter(rope=2)
    assert far(logits(model, ids), plain) <= ROUNDING
    assert torch.equal(logits(unfuse_(model), ids), plain)
