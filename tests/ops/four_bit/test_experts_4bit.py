# SPDX-License-Identifier: MIT
"""Experts in 4 bits by themselves: beside their definition, with each mark that transformers has, moved and saved."""

from __future__ import annotations

import copy
import pickle

import pytest

import kernelwright
from kernelwright import errors
from tests.python.tensors import torch

pytestmark = pytest.mark.torch

HIDDEN, INSIDE, COUNT, TOP = 64, 32, 5, 2
MARKS = [
    {},
    {"has_bias": True, "is_transposed": True},
    {"has_gate": False, "has_post_expert_norm": True},
]


class Experts(torch.nn.Module):
    """As transformers' experts say of themselves how they compute."""

    def __init__(self, has_gate=True, has_bias=False, is_transposed=False, has_post_expert_norm=False):
        super().__init__()
        self.num_experts, self.has_gate, self.has_bias = COUNT, has_gate, has_bias
        self.is_transposed, self.has_post_expert_norm = is_transposed, has_post_expert_norm
        self.act_fn = torch.nn.SiLU()
        inside = INSIDE * (2 if has_gate else 1)
        for name, rows, columns in (
            ("gate_up_proj" if has_gate else "up_proj", inside, HIDDEN),
            ("down_proj", HIDDEN, INSIDE),
        ):
            shape = (columns, rows) if is_transposed else (rows, columns)
            setattr(self, name, torch.nn.Parameter(torch.randn(COUNT, *shape) / 8))
            if has_bias:
                setattr(self, f"{name}_bias", torch.nn.Parameter(torch.randn(COUNT, rows)))
        if has_post_expert_norm:
            self.post_expert_norm = torch.nn.LayerNorm(HIDDEN)

    def _apply_gate(self, both):
        gate, up = both.chunk(2, -1)
        return self.act_fn(gate) * up

    def forward(self, x, chosen, by):
        """A token at a time."""
        found = []
        for token, experts, weights in zip(x, chosen.tolist(), by, strict=True):
            parts = [self.one(token, e) * w for e, w in zip(experts, weights, strict=True) if e < COUNT]
            found.append(sum(parts, torch.zeros_like(token)))
        return torch.stack(found)

    def one(self, x, e):
        def product(name, x):
            weight = getattr(self, name)[e]
            y = x @ weight if self.is_transposed else x @ weight.t()
            return y + getattr(self, f"{name}_bias")[e] if self.has_bias else y

        x = self._apply_gate(product("gate_up_proj", x)) if self.has_gate else self.act_fn(product("up_proj", x))
        x = product("down_proj", x)
        return self.post_expert_norm(x) if self.has_post_expert_norm else x


@pytest.fixture(params=MARKS, ids=lambda marks: "-".join(marks) or "plain")
def experts(request, device, seed):
    torch.manual_seed(seed)
    return Experts(**request.param).to(device)


def tokens(device, count=9):
    x = torch.randn(count, HIDDEN, device=device)
    chosen = torch.stack([torch.randperm(COUNT, device=device)[:TOP] for _ in range(count)])
    return x, chosen, torch.rand(count, TOP, device=device)


@pytest.mark.parametrize("double", [False, True])
def test_as_defined(experts, device, double):
    from kernelwright import nn

    made = nn.Experts4bit(experts, quant_type="nf4", compress_statistics=double).to(device)
    assert all(getattr(made, name).dtype is torch.uint8 for name in made.names)
    assert all(parameter.requires_grad is (name not in made.names) for name, parameter in made.named_parameters())
    x, chosen, by = tokens(device)
    x.requires_grad_()
    by.requires_grad_()
    gradient = torch.randn_like(x)
    y = made(x, chosen, by)
    found = y, *torch.autograd.grad(y, (x, by), gradient)
    wide = made.dequantize()
    assert type(wide) is Experts
    expected = wide(x, chosen, by)
    for mine, other in zip(found, (expected, *torch.autograd.grad(expected, (x, by), gradient)), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
    for name in made.names:  # half the widest gap between two values, of the largest weight of a block
        before = getattr(experts, name)
        assert (getattr(wide, name) - before).abs().max() <= 0.17 * before.abs().max()


def test_tokens_of_other_processes_and_none(experts, device):
    """Where experts are spread over processes, a number past the last is another's."""
    from kernelwright import nn

    made = nn.Experts4bit(experts, quant_type="nf4").to(device)
    x, chosen, by = tokens(device)
    chosen[::2, 0], by[::2, 0] = COUNT, 0.0
    torch.testing.assert_close(made(x, chosen, by), made.dequantize()(x, chosen, by), rtol=1e-4, atol=1e-4)
    assert made(x[:0], chosen[:0], by[:0]).shape == (0, HIDDEN)


@pytest.mark.parametrize("double", [False, True])
def test_moved_copied_and_saved(experts, device, double):
    from kernelwright import nn

    made = nn.Experts4bit(experts, quant_type="nf4", compress_statistics=double)
    given = tokens(device)
    with pytest.raises(errors.InvalidArgument, match="is not quantized yet"):
        made(*given)
    made = made.to(device)
    y = made(*given)
    held = made.state_dict()
    assert {"down_proj", "down_proj.absmax", "down_proj.quant_state.bitsandbytes__nf4"} <= held.keys()
    copies = [copy.deepcopy(made), pickle.loads(pickle.dumps(made))]  # noqa: S301 - of this test
    empty = nn.Experts4bit(copy.deepcopy(experts), quant_type="nf4").to(device)
    with torch.no_grad():
        for parameter in empty.parameters():
            parameter.zero_()
    assert str(empty.load_state_dict(held)) == "<All keys matched successfully>"
    again = nn.Experts4bit(copy.deepcopy(experts), quant_type="nf4").to("meta")
    again.load_state_dict(held, assign=True)
    for other in (*copies, empty, again):
        assert torch.equal(other(*given), y)
    wide = nn.Experts4bit(copy.deepcopy(experts), quant_type="nf4", compress_statistics=double).to(device)
    with torch.no_grad():
        for name in wide.names:
            getattr(wide, name).zero_()
    upright = nn.Experts4bit(copy.deepcopy(experts), quant_type="nf4")  # whose weights are not quantized
    wide.load_state_dict(upright.state_dict())
    assert torch.equal(wide(*given), y)
    with pytest.raises(RuntimeError, match="down_proj: is of shape"):
        made.load_state_dict({**upright.state_dict(), "down_proj": torch.zeros(2, 3, 4)})


def test_scales_that_experts_would_share(device, seed):
    """Of 4 experts of 64 x 64 elements each has 64 scales, and a block of quantized scales is of 256."""
    from kernelwright import nn
    from kernelwright.compat.bitsandbytes import functional

    torch.manual_seed(seed)
    experts = Experts(has_gate=False).to(device)
    assert nn.Experts4bit(experts, compress_statistics=True).to(device).down_proj.quant_state.nested is False
    codes, state = functional.quantize_4bit(experts.down_proj.data, compress_statistics=True, quant_type="nf4")
    made = nn.Experts4bit.from_parts(codes, state.as_dict(packed=True), device)
    assert made.quant_state.nested is False
    assert torch.equal(made.dequantize(), functional.dequantize_4bit(codes, state))


def test_a_whole_model(experts, device):
    from kernelwright import nn

    model = torch.nn.ModuleDict({"first": torch.nn.Linear(64, 64, device=device), "experts": experts})
    given, before = tokens(device), experts.down_proj.detach().clone()
    assert type(nn.quantize_(model)["experts"]) is nn.Experts4bit
    y = model["experts"](*given)
    back = nn.dequantize_(model)
    assert type(back["experts"]) is Experts
    assert type(back["first"]) is torch.nn.Linear
    torch.testing.assert_close(back["experts"](*given), y, rtol=1e-4, atol=1e-4)
    assert 0 < (back["experts"].down_proj - before).abs().max() <= 0.17 * before.abs().max()
    assert type(nn.quantize_(model, skip=["experts"])["experts"]) is Experts
    assert type(nn.quantize_(torch.nn.ModuleDict({"experts": back["experts"]}))["experts"]) is nn.Experts4bit


def test_what_is_refused(experts, device):
    from kernelwright import nn

    with pytest.raises(errors.InvalidArgument, match=r"Linear: it does not say how its experts compute"):
        nn.Experts4bit(torch.nn.Linear(4, 4))
    with pytest.raises(errors.InvalidArgument, match="has 2048 elements, no multiple of 4096"):
        nn.Experts4bit(Experts(), blocksize=4096)
    packed, absmax = kernelwright.quantize_4bit(torch.randn(3, 5, 32, device=device), 64)
    with pytest.raises(errors.Unsupported, match="must be a multiple of 64 so that experts share no block"):
        kernelwright.matmul_4bit_grouped(
            torch.randn(2, 32, device=device), packed, absmax, torch.ones(3, dtype=torch.int32, device=device), 5
        )


def test_replayed_with_other_ends(device, seed):
    """A captured graph reads where experts' rows end anew."""
    if device != "cuda":
        pytest.skip("graphs are captured on a GPU")
    packed, absmax = kernelwright.quantize_4bit(torch.randn(4, 96, 64, device=device))
    x, ends = torch.randn(40, 64, device=device).half(), torch.tensor([9, 9, 30, 40], dtype=torch.int32, device=device)

    def run():
        return kernelwright.matmul_4bit_grouped(x, packed, absmax, ends, 96)

    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = run()
    for values in ([40, 40, 40, 40], [0, 1, 1, 2]):
        ends.copy_(torch.tensor(values, dtype=torch.int32))
        graph.replay()
        assert torch.equal(y, run())
