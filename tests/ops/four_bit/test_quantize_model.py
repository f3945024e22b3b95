# SPDX-License-Identifier: MIT
"""kernelwright.nn.quantize_: which layers of a model it takes, and what it says while it does."""

from __future__ import annotations

import io
import sys

import pytest

from kernelwright import errors
from tests.python.tensors import torch

pytestmark = pytest.mark.torch


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.gate = torch.nn.Linear(64, 64), torch.nn.Linear(64, 2)

    def forward(self, x):
        return x + self.q_proj(x) * self.gate(x).sum(-1, keepdim=True)


class Model(torch.nn.Module):
    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(20, 64)
        self.layers = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(64, 20, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = layer(h)
        return self.head(h)


class Known(Model):
    """As models of transformers: they say which layer is the output's."""

    def get_output_embeddings(self):
        return self.head


def quantized(model):
    from kernelwright import nn

    return sorted(name for name, module in model.named_modules() if isinstance(module, nn.Linear4bit))


def every(*names):
    return sorted(f"layers.{i}.{name}" for i in range(2) for name in names)


@pytest.mark.parametrize(
    ("made", "skip", "expected"),
    [
        (Model, None, [*every("gate", "q_proj"), "head"]),
        (Known, None, every("gate", "q_proj")),
        (Known, (), [*every("gate", "q_proj"), "head"]),
        (Model, ["gate", "head"], every("q_proj")),
        (Model, ["layers.0"], ["layers.1.gate", "layers.1.q_proj", "head"]),
        (Model, ["layers.*.gate", "head"], every("q_proj")),
        (lambda: Model(tied=True), None, every("gate", "q_proj")),
    ],
)
def test_which_layers(made, skip, expected, device):
    from kernelwright import nn

    model = made().to(device)
    ids = torch.randint(0, 20, (2, 5), device=device)
    plain = {
        name: module.weight.detach().clone() for name, module in model.named_modules() if hasattr(module, "weight")
    }
    before = model(ids)
    assert nn.quantize_(model, skip) is model
    assert quantized(model) == sorted(expected)
    after = model(ids)
    assert 0 < (after - before).norm() <= 0.5 * before.norm()
    # The same as with the weights that its codes stand for.
    for name in expected:
        layer = model.get_submodule(name)
        wide = layer.weight.dequantize()
        assert (wide - plain[name]).abs().max() <= 0.18 * plain[name].abs().max()
        other = torch.nn.Linear(layer.in_features, layer.out_features, layer.bias is not None, device=device)
        other.weight, other.bias = torch.nn.Parameter(wide), layer.bias
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, other)
    # An output may be a small sum of large products: what rounding may do follows from all of them, and not from its own.
    exact = model.double()(ids)
    assert (after - exact).norm() <= 1e-6 * exact.norm()


def test_hooks_stay(device):
    """Who watches a layer watches what takes its place, there and back, until the hook is removed."""
    from kernelwright import nn

    model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU()).to(device)
    x, seen = torch.randn(2, 64, device=device, requires_grad=True), []
    handles = [
        model[0].register_forward_pre_hook(lambda *_, **__: seen.append("before"), with_kwargs=True),
        model[0].register_forward_hook(lambda layer, *_: seen.append(type(layer).__name__)),
        model[0].register_full_backward_hook(lambda *_: seen.append("back")),
    ]
    nn.quantize_(model)
    model(x).sum().backward()
    nn.dequantize_(model)
    model(x).sum().backward()
    assert seen == ["before", "Linear4bit", "back", "before", "Linear", "back"]
    for handle in handles:
        handle.remove()
    model(x).sum().backward()
    assert len(seen) == 6


def test_a_pruned_layer(device):
    """A hook that makes the weight of other parameters in each forward goes with these: what it made is quantized."""
    from torch.nn.utils import prune

    from kernelwright import nn

    model = torch.nn.Sequential(torch.nn.Linear(64, 8)).to(device)
    prune.l1_unstructured(model[0], "weight", 0.5)
    x = torch.randn(2, 64, device=device)
    gone, before = model[0].weight == 0, model(x)
    nn.quantize_(model)
    assert gone.sum() == 256
    assert not model[0].weight.dequantize()[gone].any()
    assert 0 < (model(x) - before).norm() <= 0.5 * before.norm()


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("kind", ["pruned", "weight_norm", "spectral_norm"])
def test_a_weight_that_is_made_anew_in_each_forward(kind):
    """Until the next forward it is the one of the parameters before the last load_state_dict()."""
    from torch.nn.utils import prune, spectral_norm, weight_norm

    from kernelwright import nn

    how = {
        "pruned": lambda layer: prune.random_unstructured(layer, "weight", 0.5),
        "weight_norm": weight_norm,
        "spectral_norm": spectral_norm,
    }[kind]
    first, model = (torch.nn.Sequential(how(torch.nn.Linear(64, 8))).eval() for _ in range(2))
    x = torch.randn(2, 64)
    before = first(x)
    model.load_state_dict(first.state_dict())
    nn.quantize_(model)
    assert 0 < (model(x) - before).norm() <= 0.5 * before.norm()


def test_a_layer_of_several_names():
    """It stays one layer of several names, there and back."""
    from kernelwright import nn

    inner = nn.LinearNF4(64, 64).to("cpu")
    block = torch.nn.Sequential(inner, torch.nn.ReLU())
    model = torch.nn.Sequential(inner, inner, block, block)
    x = torch.randn(2, 64)
    before = model(x)
    nn.dequantize_(model)
    assert [type(layer) for layer in model] == [torch.nn.Linear] * 2 + [torch.nn.Sequential] * 2
    assert model[0] is model[1]
    assert model[2][0] is model[0]
    torch.testing.assert_close(model(x), before, rtol=1e-4, atol=1e-4)


def test_torchs_own_encoder(device):
    """In evaluation it would give its layers' weights to a kernel that knows no codes."""
    from kernelwright import nn

    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0, batch_first=True, device=device)
    model = torch.nn.TransformerEncoder(layer, 2)
    nn.quantize_(model)
    assert quantized(model) == [f"layers.{i}.linear{j}" for i in range(2) for j in (1, 2)]
    x, hidden = torch.randn(2, 5, 64, device=device), torch.zeros(2, 5, dtype=torch.bool, device=device)
    hidden[1, 3:] = True
    for mask in (None, hidden):
        learning = model.train()(x, src_key_padding_mask=mask).detach()
        with torch.no_grad():
            torch.testing.assert_close(model.eval()(x, src_key_padding_mask=mask), learning)


def test_settings_reach_the_layers():
    from kernelwright import nn

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).bfloat16().eval()
    nn.quantize_(
        model, quant_type="fp4", blocksize=128, compress_statistics=False, compute_dtype=torch.float32,
        quant_storage=torch.bfloat16,
    )  # fmt: skip
    for layer in (model[0], model[2]):
        state = layer.weight.quant_state
        assert (state.quant_type, state.blocksize, state.nested, state.dtype) == ("fp4", 128, False, torch.bfloat16)
        assert (layer.compute_dtype, layer.weight.dtype, layer.training) == (torch.float32, torch.bfloat16, False)
        assert not layer.weight.requires_grad
        assert layer.bias.requires_grad


@pytest.mark.gpu
def test_straight_to_a_gpu():
    """Layer by layer, so that the GPU has room for the codes alone; what is not quantized stays where it is."""
    from kernelwright import nn

    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(4)), torch.nn.LayerNorm(2048))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    nn.quantize_(model, device="cuda")
    whole = 4 * 2048 * 2048 * 4
    assert torch.cuda.max_memory_allocated() - before < whole / 2
    for layer in model[:4]:
        state = layer.weight.quant_state
        assert {t.device.type for t in (layer.weight, layer.bias, state.absmax, state.code, state.offset)} == {"cuda"}
    assert model[4].weight.device.type == "cpu"


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_and_back(device, dtype):
    from kernelwright import nn

    model = nn.quantize_(Model().to(device).bfloat16().eval(), ["head"])
    ids = torch.randint(0, 20, (2, 5), device=device)
    y, wide = model(ids), {name: model.get_submodule(name).weight.dequantize() for name in quantized(model)}
    bias = model.layers[0].gate.bias
    assert nn.dequantize_(model, dtype and getattr(torch, dtype)) is model
    assert not quantized(model)
    for name, weight in wide.items():
        layer = model.get_submodule(name)
        assert (type(layer), layer.training, layer.weight.requires_grad) == (torch.nn.Linear, False, False)
        assert torch.equal(layer.weight, weight.to(layer.weight.dtype))
        assert layer.weight.dtype is (torch.float16 if dtype else torch.bfloat16)
    assert model.layers[0].gate.bias is bias
    if not dtype:
        assert (model(ids) - y).norm() <= 2e-2 * y.norm()
    assert nn.dequantize_(model) is model  # nothing is left to do


def test_what_is_refused():
    from kernelwright import nn

    with pytest.raises(
        errors.InvalidArgument, match="skip has 'haed', but no module is called so; its modules are emb"
    ):
        nn.quantize_(Model(), ["haed"])
    with pytest.raises(errors.InvalidArgument, match=r"skip='head' is a string, but .* skip=\['head'\]"):
        nn.quantize_(Model(), "head")
    with pytest.raises(errors.InvalidArgument, match=r"ReLU has no torch\.nn\.Linear to quantize"):
        nn.quantize_(torch.nn.ReLU())
    with pytest.raises(errors.InvalidArgument, match=r"besides those that skip=\['0'\]"):
        nn.quantize_(torch.nn.Sequential(torch.nn.Linear(4, 4)), ["0"])
    with pytest.raises(errors.InvalidArgument, match=r"itself one torch\.nn\.Linear"):
        nn.quantize_(torch.nn.Linear(4, 4))
    with pytest.raises(errors.InvalidArgument, match="itself one Linear4bit"):
        nn.dequantize_(nn.LinearNF4(64, 64).to("cpu"))
    with pytest.raises(errors.InvalidArgument, match=r"LinearNF4: its weight .* is not quantized yet"):
        nn.dequantize_(torch.nn.Sequential(nn.LinearNF4(64, 64)))
    with pytest.raises(errors.InvalidArgument, match="on the meta device"):
        nn.quantize_(torch.nn.Sequential(torch.nn.Linear(64, 64, device="meta")))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("tqdm", [True, False])
def test_the_bar_is_for_terminals(tqdm, monkeypatch):
    from kernelwright import nn
    from kernelwright.nn import _progress

    def bar(items, desc, unit):
        print(f"tqdm {desc} {unit}", file=sys.stderr)
        return items

    monkeypatch.setattr(_progress, "_tqdm", lambda: bar if tqdm else None)
    for stream, show, said in (
        (Terminal(), None, True),
        (io.StringIO(), None, False),
        (io.StringIO(), True, True),
        (Terminal(), False, False),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        nn.quantize_(Model(), show_progress=show)
        words = stream.getvalue()
        assert bool(words) == said
        if said:
            assert words == "tqdm quantizing layer\n" if tqdm else words.endswith("\rquantizing: 5 of 5\n")
