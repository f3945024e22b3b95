# SPDX-License-Identifier: MIT
"""`nn.fuse_` and `nn.unfuse_` on modules that look like those of other libraries: the same values, names and weights."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

from kernelwright import nn
from kernelwright.errors import InvalidArgument

pytestmark = pytest.mark.torch
F = torch.nn.functional


class GatedModule(torch.nn.Module):
    def __init__(self, act, bias=False):
        super().__init__()
        self.gate_proj, self.up_proj = (torch.nn.Linear(16, 40, bias) for _ in range(2))
        self.down_proj, self.act_fn = torch.nn.Linear(40, 16, bias), act

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Packed(torch.nn.Module):
    def __init__(self, act):
        super().__init__()
        self.gate_up_proj, self.down_proj = torch.nn.Linear(16, 80), torch.nn.Linear(40, 16)
        self.activation_fn = act

    def forward(self, x):
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        return self.down_proj(self.activation_fn(gate) * up)


class Intermediate(torch.nn.Module):
    def __init__(self, act):
        super().__init__()
        self.dense, self.intermediate_act_fn = torch.nn.Linear(16, 40), act

    def forward(self, x):
        return self.intermediate_act_fn(self.dense(x))


class Conv1D(torch.nn.Module):
    """GPT-2's layer, whose weight is transposed."""

    def __init__(self, out, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width, out) / 4)
        self.bias = torch.nn.Parameter(torch.randn(out))

    def forward(self, x):
        return torch.addmm(self.bias, x.flatten(0, -2), self.weight).view(*x.shape[:-1], -1)


class Two(torch.nn.Module):
    def __init__(self, act):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(40, 16), Conv1D(16, 40)
        self.act, self.dropout = act, torch.nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


MODULES = {
    "silu": lambda: GatedModule(torch.nn.SiLU()),
    "silu with biases": lambda: GatedModule(torch.nn.SiLU(), bias=True),
    "gelu": lambda: GatedModule(torch.nn.GELU()),
    "gelu by tanh": lambda: GatedModule(torch.nn.GELU(approximate="tanh")),
    "packed": lambda: Packed(torch.nn.SiLU()),
    "packed gelu": lambda: Packed(torch.nn.GELU()),
    "bert": lambda: Intermediate(torch.nn.GELU()),
    "gpt2": lambda: Two(torch.nn.GELU(approximate="tanh")),
    "sequence": lambda: torch.nn.Sequential(torch.nn.Linear(16, 40), torch.nn.ReLU(), torch.nn.Linear(40, 16)),
}


@pytest.fixture(params=MODULES)
def module(request):
    torch.manual_seed(0)
    return MODULES[request.param]()


def values(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_same_values_and_back(module, merge, dtype):
    model = torch.nn.ModuleDict({"layer": module.to(dtype)}).eval()
    x, before = torch.randn(2, 3, 16, dtype=dtype), values(model)
    with torch.no_grad():
        plain = module(x)
        found = nn.fuse_(model, merge=merge)
        assert sum(map(len, found.replaced.values())) == 1, found
        assert not found.kept
        near = {"rtol": 0.03, "atol": 0.03} if dtype is torch.bfloat16 else {}
        torch.testing.assert_close(module(x), plain, **near)
    after = model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in after.items())
    assert not nn.fuse_(model).replaced  # it is already
    assert nn.unfuse_(model) is model
    assert "forward" not in vars(module)
    assert torch.equal(module(x), plain)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_gradients_are_those_of_the_module(module):
    module.eval()
    x, found = torch.randn(4, 16), []
    for _ in range(2):
        module.zero_grad()
        module(x).square().sum().backward()
        found.append({name: value.grad.clone() for name, value in module.named_parameters()})
        nn.fuse_(module)
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, rtol=1e-4, atol=1e-4)


def test_merged_weights_are_one_piece_of_memory_and_part_again():
    module = GatedModule(torch.nn.SiLU())
    gate, up = module.gate_proj.weight, module.up_proj.weight
    found = nn.fuse_(module)
    assert found.merged == [""]
    assert "gate and up as one weight" in str(found)
    assert module.gate_proj.weight is gate  # an optimizer has it
    assert up.data_ptr() - gate.data_ptr() == gate.numel() * 4
    found.undo()
    assert gate.untyped_storage().data_ptr() != up.untyped_storage().data_ptr()


def test_a_weight_that_is_loaded_or_moved_later_counts():
    module, other = GatedModule(torch.nn.SiLU()), GatedModule(torch.nn.SiLU())
    nn.fuse_(module)
    x = torch.randn(3, 16)
    with torch.no_grad():
        module.load_state_dict(other.state_dict())
        torch.testing.assert_close(module(x), other(x))
        module.double(), other.double()
        torch.testing.assert_close(module(x.double()), other(x.double()))


class Adapter(torch.nn.Module):
    """What peft puts in a layer's place."""

    def __init__(self, base):
        super().__init__()
        self.base, self.more = base, torch.nn.Linear(16, 40)

    def forward(self, x):
        return self.base(x) + self.more(x)


@pytest.mark.parametrize("name", ["gate_proj", "up_proj"])
def test_an_adapter_attaches_afterwards(name):
    module = GatedModule(torch.nn.SiLU())
    nn.fuse_(module)
    setattr(module, name, Adapter(getattr(module, name)))
    x = torch.randn(3, 16)
    with torch.no_grad():
        torch.testing.assert_close(module(x), type(module).forward(module, x))


def test_a_hook_is_called():
    module, seen = GatedModule(torch.nn.SiLU()), []
    nn.fuse_(module)
    module.up_proj.register_forward_hook(lambda *_: seen.append(1))
    with torch.no_grad():
        module(torch.randn(3, 16))
    assert seen


def test_layers_in_4_bits_stay_what_they_are():
    module = GatedModule(torch.nn.SiLU()).bfloat16()
    nn.quantize_(module)
    x = torch.randn(3, 16, dtype=torch.bfloat16)
    with torch.no_grad():
        plain = module(x)
        found = nn.fuse_(module)
        assert found.replaced == {"gated MLP": [""]}
        assert not found.merged
        torch.testing.assert_close(module(x), plain, rtol=0.03, atol=0.03)


class Lies(GatedModule):
    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x) + 1)


def test_a_module_that_computes_something_else_is_kept():
    found = nn.fuse_(Lies(torch.nn.SiLU()))
    assert not found.replaced
    assert "something else" in str(found)


def test_what_is_refused():
    for function in (nn.fuse_, nn.unfuse_):
        with pytest.raises(InvalidArgument, match=r"must be a torch\.nn\.Module"):
            function(3)


def test_dropout_does_not_make_it_something_else():
    module = Two(torch.nn.GELU(approximate="tanh")).train()
    assert nn.fuse_(module).replaced
    assert module.dropout.training
    assert (module(torch.ones(200, 16)) == 0).any()


def test_copied_and_pickled_it_is_the_module_again(module):
    module.eval()
    nn.fuse_(module)
    x = torch.randn(2, 16)
    with torch.no_grad():
        for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):  # noqa: S301 - made here
            torch.testing.assert_close(again(x), module(x))
            nn.fuse_(again)  # a deep copy is fused already
            torch.testing.assert_close(again(x), module(x))
            assert "forward" not in vars(nn.unfuse_(again))
