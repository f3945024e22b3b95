# SPDX-License-Identifier: MIT
"""Checkpoints of 4-bit layers that somebody damaged or made up: refused in words, before anything is changed."""

from __future__ import annotations

import json

import pytest

from tests.python.tensors import torch

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*quantize_per_tensor.*:UserWarning")]

BLOB = "weight.quant_state.bitsandbytes__nf4"
FAR = torch.tensor(10**13)  # bytes() of such a number are so many zeros


def made():
    from kernelwright import nn

    return nn.LinearNF4(64, 32).to("cpu")


def refused(changes, said, **how):
    target, given = made(), dict(made().state_dict()) | changes
    before = {name: value.clone() for name, value in target.state_dict().items() if "weight" in name}
    with pytest.raises(RuntimeError, match=f"Error.s. in loading(.|\n)*weight: .*{said}"):
        target.load_state_dict(given, **how)
    after = target.state_dict()
    assert after.keys() == before.keys() | {"bias"}
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def written(**values):
    text = json.dumps(json.loads(bytes(made().state_dict()[BLOB].tolist())) | values)
    return {BLOB: torch.tensor(list(text.encode()), dtype=torch.uint8)}


@pytest.mark.parametrize(
    ("blob", "said"),
    [
        (FAR, "holds no JSON object"),
        (torch.tensor(list(b"[" * 200_000), dtype=torch.uint8), "holds no JSON object"),
        (torch.zeros(30, dtype=torch.uint8, device="meta"), "is on meta, without values, but must be a plain tensor"),
        (
            torch.ones(3, dtype=torch.uint8).to_sparse(),
            "is a tensor of layout torch.sparse_coo, but must be a plain tensor",
        ),
    ],
)
def test_a_packed_state_without_bytes(blob, said):
    refused({BLOB: blob}, said)


def test_a_number_that_no_float_holds():
    refused(written(nested_offset=10**400), "nested_offset is 1000.*, but must be a number")


def odd(tensor, how):
    """The same shape and about the same values, as no plain tensor."""
    if how == "quantized":
        return torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.quint8)
    if how == "nested":
        return torch.nested.nested_tensor([tensor, tensor], layout=torch.jagged)
    return tensor.to_sparse() if how == "sparse" else tensor.to("meta")


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("how", ["sparse", "meta", "quantized", "nested"])
@pytest.mark.parametrize("part", ["", ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"])
def test_parts_that_are_no_plain_tensors(part, how, assign):
    key = f"weight{part}"
    kinds = {"sparse": "of layout", "meta": "on meta", "quantized": "quantized", "nested": "a nested tensor"}
    refused({key: odd(made().state_dict()[key], how)}, f"{kinds[how]}.*, but must be a plain tensor", assign=assign)


def test_codes_that_cannot_be_seen_as_bytes():
    codes = made().state_dict()["weight"]
    refused({"weight": torch.tensor(1.0)}, "the codes have shape .*, but must have at least one dimension")
    # Copying such may make 1 of every other byte.
    refused({"weight": codes.view(torch.bool)}, "the codes are of torch.bool")


def test_parts_that_were_to_learn():
    """A checkpoint made with keep_vars=True, or of a program's own tensors, trains nothing but what is beside it."""
    target, x = made(), torch.randn(3, 64, requires_grad=True)
    given = dict(made().state_dict())
    for name in ("absmax", "nested_absmax", "nested_quant_map", "quant_map"):
        key = f"weight.{name}"
        if given[key].is_floating_point():
            given[key] = given[key].clone().requires_grad_() * 1
    for assign in (False, True):
        target.load_state_dict(given, assign=assign)
        target(x).sum().backward()
        torch.testing.assert_close(x.grad, target.weight.dequantize().sum(0).expand(3, 64), rtol=1e-4, atol=1e-4)
        x.grad = None


@pytest.mark.parametrize("place", [0, 7, 15])
def test_values_that_are_a_little_other(place):
    """The operators compute with values of their own; bitsandbytes' files have them to the last bit but one or two."""
    values = made().state_dict()["weight.quant_map"].clone()
    values[place] += 1e-4
    refused({"weight.quant_map": values}, "quant_map has other values than nf4")


def test_a_double_quantized_table():
    """Layers make none, programs may; scales of rows of more than one of the second blocks."""
    from kernelwright import nn
    from kernelwright.compat.bitsandbytes import functional

    table = torch.randn(600, 64) * torch.arange(1, 601).unsqueeze(1)  # so that no two second blocks are alike
    packed, state = functional.quantize_4bit(table, quant_type="nf4", compress_statistics=True)
    loaded, ids = nn.EmbeddingNF4(600, 64).to("cpu"), torch.tensor([[0, 255, 256], [511, 512, 599]])
    loaded.load_state_dict({"weight": packed} | {f"weight.{k}": v for k, v in state.as_dict(packed=True).items()})
    expected = functional.dequantize_4bit(packed, state)
    assert torch.equal(loaded(ids), expected[ids])
    assert (expected - table).abs().max() <= 0.2 * table.abs().max()


def test_no_two_parts_of_a_checkpoint_lie_in_one_place():
    """safetensors keeps one of those that do, and layers may share a map."""
    layers = torch.nn.ModuleList([made(), made()])
    for layer in layers:
        layer.weight.quant_state.state2.code = layers[0].weight.quant_state.state2.code
    places = [value.data_ptr() for value in layers.state_dict().values()]
    assert len(set(places)) == len(places)
