# SPDX-License-Identifier: MIT
"""`optimize(model)`: q, k and v as one product, gate and up as one, of weights that stay under their names."""

from __future__ import annotations

import copy
import pickle
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.nn import _attention, _feed_forward
from tests.integrations.answers import ROUNDING, far, generates
from tests.integrations.families import FAMILIES, saved

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]

# Attention and gated MLPs, of two layers each. Phi-3 has merged weights of its own; experts are no layers.
EXPECTED = {
    "llama": (2, 2), "qwen2": (2, 2), "qwen3": (2, 2), "gemma2": (2, 2), "gemma3": (2, 2), "mistral": (2, 2),
    "phi": (2, 0), "phi3": (0, 0), "mixtral": (2, 0), "qwen3-moe": (2, 0),
}  # fmt: skip
PRODUCT = "kernelwright::matmul_4bit"
OF_ONE = ("llama", "qwen2")
"""Without a bias and with: what else is asked of them does not depend on the family."""
DOUBLE = {"bnb_4bit_use_double_quant": True}
WIDE = {"hidden_size": 256, "intermediate_size": 512}
"""Whole blocks of 256 scales in each layer: what quantized scales ask for."""
WAYS = pytest.mark.parametrize(
    ("family", "double"), [*((family, False) for family in OF_ONE), *((family, True) for family in OF_ONE)]
)


@pytest.fixture
def optimize(transformers):
    from kernelwright.integrations.transformers import optimize

    return optimize


@pytest.fixture
def make(transformers, quantizer, load, seed, tmp_path):
    """A function of a family: its model with plain NF4 scales, or another quantization, or None. wide: see WIDE."""

    def make(family, **changes):
        options = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.bfloat16}
        quantizer.enable()
        wide = WIDE if changes.pop("wide", changes.get("bnb_4bit_use_double_quant")) else {}
        path = tmp_path / f"{family}{len(wide)}"
        if not path.exists():
            saved_with_biases(transformers, family, path, wide)
        config = transformers.BitsAndBytesConfig(**options | changes) if changes.get("load_in_4bit", True) else None
        return load(path, **({"quantization_config": config} if config else {}))

    return make


def saved_with_biases(transformers, family, path, sizes):
    """Biases are 0 in a new model."""
    path = saved(transformers, family, path, **sizes)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.copy_(torch.randn_like(parameter))
    model.save_pretrained(path)


class Called(TorchDispatchMode):
    """Operators, by name, as often as they are called."""

    def __init__(self):
        super().__init__()
        self.names = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names[func._schema.name] += 1
        return func(*args, **(kwargs or {}))


def called(model, ids):
    with torch.no_grad(), Called() as found:
        model(ids)
    return found.names


def bytes_held(model):
    """Of memory that parameters and their states lie in, each piece once."""
    found = {}
    for module in model.modules():
        state, joined = getattr(module, "quant_state", None), getattr(module, "joined", None)
        tensors = [*module.parameters(recurse=False), *([state.absmax] if state else [])]
        tensors += [state.state2.absmax, state.state2.code] if state and state.nested else []
        tensors += [joined.weight[0], *joined.weight[1], joined.bias] if joined and joined.weight else []
        for tensor in filter(lambda one: one is not None, tensors):
            memory = tensor.untyped_storage()
            found[memory.data_ptr()] = memory.nbytes()
    return sum(found.values())


def offsets_held(model):
    """Of scales that are quantized too: what a product of several layers has beside what each layer has."""
    found = {id(module.joined): module.joined for module in model.modules() if getattr(module, "joined", None)}
    return sum(joined.weight[1][3].nbytes for joined in found.values() if len(joined.weight[1]) > 1)


def apart(y, plain, family):
    """Where a router's two best experts are equal but for rounding, either is right: of a mixture half of the tokens
    count."""
    each = (y - plain).norm(dim=-1) / plain.norm(dim=-1)
    return float(each.median()) if family in ("mixtral", "qwen3-moe") else far(y, plain)


def logits(model, ids):
    """Without gradients: biases learn, and layers whose biases do are products of their own."""
    with torch.no_grad():
        return model(ids).logits.double()


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(model, before):
    after = model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(value, before[name].to(value.device)) for name, value in after.items())


def of_attention(found):
    return [name for name in found.merged if name.endswith("self_attn")]


def parted(model):
    """The same model whose layers are called one by one again; all else stays as it was put in."""
    for module in model.modules():
        for part, wanted in ((_attention.part, "q_proj"), (_feed_forward.part, "gate_proj")):
            if hasattr(module, wanted):
                part(module)
    return model


@pytest.mark.parametrize(
    ("family", "double"), [*((name, False) for name in FAMILIES), *((name, True) for name in (*OF_ONE, "gemma2"))]
)
def test_the_same_bits_from_fewer_products(family, double, make, optimize, ids):
    model = make(family, **DOUBLE if double else {})
    plain, before, held = logits(model, ids), state(model), bytes_held(model)
    products = called(model, ids)[PRODUCT]
    found = optimize(model)
    attention, mlps = EXPECTED[family]
    assert len(of_attention(found)) == attention
    assert len(found.merged) == attention + mlps
    assert not found.apart
    assert not found.kept
    assert called(model, ids)[PRODUCT] == products - 2 * attention - mlps
    here = logits(model, ids)
    assert apart(here, plain, family) <= ROUNDING
    same(model, before)
    assert (offsets_held(model) > 0) == double
    assert bytes_held(model) == held + offsets_held(model)
    one_by_one = logits(parted(model), ids)
    assert called(model, ids)[PRODUCT] == products
    # Another number of rows may be divided among a GPU's blocks in another way.
    assert torch.equal(here, one_by_one) if not ids.is_cuda else apart(here, one_by_one, family) <= ROUNDING
    optimize(model)
    assert torch.equal(logits(model, ids), here)  # together again
    found.undo()
    assert torch.equal(logits(model, ids), plain)
    assert not any(getattr(module, "joined", None) for module in model.modules())
    same(model, before)


@pytest.mark.parametrize("family", OF_ONE)
def test_dense_weights_stay_where_they_are(family, make, optimize, ids):
    model = make(family, load_in_4bit=False)
    places = [parameter.data_ptr() for parameter in model.parameters()]
    found = optimize(model)
    assert not found.merged
    assert not found.apart
    assert not found.kept
    assert [parameter.data_ptr() for parameter in model.parameters()] == places


@WAYS
def test_saved_and_loaded(family, double, make, optimize, load, transformers, ids, tmp_path, device):
    changes = DOUBLE if double else {}
    model = make(family, **changes)
    sizes = []
    for name in ("apart", "together"):
        model.save_pretrained(tmp_path / name)
        torch.save(model.state_dict(), tmp_path / f"{name}.pt")
        files = [*(tmp_path / name).glob("*.safetensors"), tmp_path / f"{name}.pt"]
        sizes.append([file.stat().st_size for file in files])
        optimize(model)
    assert sizes[0][0] == sizes[1][0]
    assert abs(sizes[0][1] - sizes[1][1]) < 4096  # the smallest weight has as much; names of storages differ
    again = load(tmp_path / "together")
    same(again, state(model))
    loaded = torch.load(tmp_path / "together.pt", map_location=device)
    same(model, loaded)
    here = logits(model, ids)
    fresh = make(family, **changes)
    optimize(fresh)
    fresh.load_state_dict(loaded)
    for one in (again, fresh):
        optimize(one)
        assert far(logits(one, ids), here) <= ROUNDING
        assert called(one, ids)[PRODUCT] == 8


@pytest.mark.parametrize("changes", [{}, DOUBLE], ids=["plain", "double"])
def test_what_changes_a_weight_is_seen(changes, make, optimize, ids):
    """Loaded, moved by hand, another parameter: the layers are products of their own, of what they are now."""
    model = make("llama", **changes)
    optimize(model)
    layers = model.model.layers[0].self_attn
    other = make("llama", **changes).model.layers[1].self_attn.k_proj
    expected = copy.deepcopy(model)
    parted(expected).model.layers[0].self_attn.k_proj.load_state_dict(other.state_dict())
    wanted = logits(expected, ids)
    before = logits(model, ids)
    assert far(before, wanted) > 0.01
    layers.k_proj.load_state_dict(other.state_dict())
    assert torch.equal(logits(model, ids), wanted)
    assert layers.q_proj.joined.weight is None  # the memory is not held
    optimize(model)
    assert layers.q_proj.joined.weight is not None
    assert torch.equal(logits(model, ids), wanted)
    moved = layers.v_proj.weight.data.clone()
    layers.v_proj.weight.data = moved
    moved.zero_()
    parted(expected).model.layers[0].self_attn.v_proj.weight.data.zero_()
    assert torch.equal(logits(model, ids), logits(expected, ids))


@WAYS
def test_a_copy_has_a_memory_of_its_own_and_a_moved_model_is_let_go(family, double, make, optimize, ids):
    model = make(family, **DOUBLE if double else {})
    optimize(model)
    here, held = logits(model, ids), bytes_held(model)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 - made here
        optimize(twin)
        assert bytes_held(twin) == held
        assert called(twin, ids)[PRODUCT] == 8
        layer = twin.model.layers[0].self_attn.q_proj
        layer.weight.data.zero_()
        assert torch.equal(logits(model, ids), here)
        assert not torch.equal(logits(twin, ids), here)
        twin.to("meta")
        assert layer.joined.weight is None


def test_an_adapter_attaches_afterwards(make, optimize, peft, ids):
    """On two of three layers, as peft does it by itself: all three go their own way, and so do the gradients."""
    found = []
    for merged in (False, True):
        model = make("llama")
        if merged:
            optimize(model)
        torch.manual_seed(3)
        config = peft.LoraConfig(
            target_modules=["q_proj", "v_proj"], r=4, task_type="CAUSAL_LM", init_lora_weights=False
        )
        model = peft.get_peft_model(model, config)
        assert far(logits(model, ids), logits(model.get_base_model(), ids)) == 0
        model(ids, labels=ids).loss.backward()
        found.append({name: value.grad.clone() for name, value in model.named_parameters() if value.requires_grad})
    assert found[0].keys() == found[1].keys()
    assert len(found[0]) == 8
    for name, value in found[1].items():
        assert far(value, found[0][name]) <= 2 * ROUNDING, name


@pytest.mark.parametrize("family", OF_ONE)
def test_gradients_pass_with_checkpointing(family, make, optimize, ids):
    model = make(family).train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    x = model.get_input_embeddings()(ids).detach().requires_grad_()
    biases = {name: value for name, value in model.named_parameters() if name.endswith("proj.bias")}
    assert len(biases) == (6 if family == "qwen2" else 0)
    wanted, found = {"x": x, **biases}, []
    for value in wanted.values():
        value.requires_grad_()
    for _ in range(2):
        grads = torch.autograd.grad(model(inputs_embeds=x, labels=ids).loss, list(wanted.values()))
        # Of all biases together: that of a single one may be rounding alone.
        found.append([grads[0].double(), torch.cat([grad.double() for grad in grads[1:]] or [x.new_ones(1)])])
        optimize(model)
    for here, expected in zip(*reversed(found), strict=True):
        assert expected.norm() > 0
        assert far(here, expected) <= 2 * ROUNDING


def test_doubly_quantized_scales_that_end_within_a_block_stay_apart(make, optimize, ids):
    """k of 64 rows of 128 has 128 scales."""
    model = make("llama", **DOUBLE, wide=False)
    products = called(model, ids)[PRODUCT]
    found = optimize(model)
    assert found.merged == [f"model.layers.{layer}.mlp" for layer in (0, 1)]
    assert list(found.apart) == [f"model.layers.{layer}.self_attn" for layer in (0, 1)]
    assert "2 with q, k and v apart: the scales are quantized too, and a layer's do not end with a block of 256" in str(
        found
    )
    assert called(model, ids)[PRODUCT] == products - 2


def test_doubly_quantized_scales_of_other_values_and_of_too_many_parts(make, optimize):
    model = make("llama", **DOUBLE)
    first, second = (layer.self_attn for layer in model.model.layers)
    first.k_proj.weight.quant_state.state2.code = first.k_proj.weight.quant_state.state2.code.flip(0)
    from kernelwright import nn

    for layer, name, rows in ((second, "q_proj", 256), (second, "k_proj", 64 * 65), (second, "v_proj", 64)):
        made = nn.LinearNF4(256, rows, bias=False, compute_dtype=torch.bfloat16, device="cpu")
        setattr(layer, name, made.to(model.device))
    found = optimize(model)
    assert len(found.merged) == 2  # the MLPs
    assert "by other values in each layer" in found.apart["model.layers.0.self_attn"]
    assert "the layers' rows have 70 equal parts, of which 63 may be" in found.apart["model.layers.1.self_attn"]


def test_a_hook_is_called_and_a_mixture_of_kinds_and_shards_are_left(make, optimize, ids):
    model, seen = make("llama"), []
    attention = model.model.layers[0].self_attn
    model.model.layers[1].self_attn.k_proj = torch.nn.Linear(128, 64, bias=False, dtype=torch.bfloat16)
    up = model.model.layers[1].mlp.up_proj
    up.weight = torch.nn.Parameter(up.weight.data, requires_grad=False)  # FSDP puts a plain tensor of its own there
    found = optimize(model)
    assert of_attention(found) == ["model.layers.0.self_attn"]
    assert list(found.apart) == ["model.layers.1.mlp"]
    assert "sharded over processes" in found.apart["model.layers.1.mlp"]
    attention.k_proj.register_forward_hook(lambda *_: seen.append(1))
    logits(model, ids)
    assert seen == [1]


def test_a_compiled_model_sees_what_is_loaded(make, optimize, ids):
    torch.set_default_device(None)
    model, other = make("llama"), make("llama").model.layers[1].self_attn.k_proj
    optimize(model)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    before = logits(compiled, ids)
    model.model.layers[0].self_attn.k_proj.load_state_dict(other.state_dict())
    assert far(logits(compiled, ids), before) > 0.01
    assert far(logits(compiled, ids), logits(model, ids)) <= ROUNDING


@pytest.mark.parametrize(
    ("family", "double"),
    [*((name, False) for name in ("llama", "qwen2", "gemma2", "mistral", "phi3", "mixtral")), ("llama", True)],
)
def test_compiled_it_is_one_graph_of_as_few_products(family, double, make, optimize, ids):
    from torch._dynamo.testing import CompileCounterWithBackend

    torch.set_default_device(None)
    model = make(family, **DOUBLE if double else {})
    optimize(model)
    plain, products = logits(model, ids), called(model, ids)[PRODUCT]
    counter = CompileCounterWithBackend("aot_eager")
    torch.compiler.reset()
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    with torch.no_grad():
        assert apart(compiled(ids).logits.double(), plain, family) <= ROUNDING
        compiled(ids.flip(0))
    assert counter.frame_count == 1
    graph = counter.graphs[0].graph
    assert sum("kernelwright.matmul_4bit." in str(node.target) for node in graph.nodes) == products
    places = [node.meta["tensor_dict"] for node in graph.nodes if node.op == "placeholder" and "joined" in node.name]
    # Codes and scales, and biases of q, k and v.
    assert len(places) == (5 if double else 2) * sum(EXPECTED[family]) + 2 * (family == "qwen2")
    assert all(place["_dynamo_static_input_type"] == "unguarded" for place in places)  # CUDA graphs copy nothing


@pytest.mark.parametrize("changes", [{}, DOUBLE], ids=["plain", "double"])
def test_generated_token_by_token(changes, make, optimize, ids):
    model = make("gemma2", **changes)
    optimize(model)
    generates(model, ids)
