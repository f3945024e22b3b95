# SPDX-License-Identifier: MIT
"""kernelwright.nn's 4-bit layers: what they compute, how they are moved, copied, saved, loaded and refused."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

from kernelwright import errors
from tests.python.tensors import RECORDS, torch

pytestmark = pytest.mark.torch

MATMUL = next(record for record in RECORDS if record.name == "matmul_4bit")
KINDS = [("nf4", False), ("nf4", True), ("fp4", False), ("fp4", True)]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}{'-double' if kind[1] else ''}")
def kind(request):
    quant_type, double = request.param
    return {"quant_type": quant_type, "compress_statistics": double}


@pytest.fixture
def layer(kind, device, seed):
    """A quantized layer and the torch layer whose weight it was made of, K no multiple of the block size."""
    from kernelwright import nn

    torch.manual_seed(seed)
    plain = torch.nn.Linear(96, 40, device=device)
    made = nn.Linear4bit(96, 40, **kind)
    made.load_state_dict(plain.state_dict())
    return made.to(device), plain


def same(a, b):
    """Equal state dicts, bit for bit."""
    assert a.keys() == b.keys()
    for key in a:
        assert a[key].dtype == b[key].dtype, key
        assert torch.equal(a[key], b[key]), key


def test_computes_with_the_dequantized_weight(layer, device):
    made, plain = layer
    weight = made.weight.dequantize()
    assert weight.shape == plain.weight.shape
    # Half the widest gap between two values, of the largest weight of a block.
    assert (weight - plain.weight).abs().max() <= 0.17 * plain.weight.abs().max()
    assert torch.equal(made.bias, plain.bias)
    x = torch.randn(3, 5, 96, device=device, requires_grad=True)
    again = x.detach().clone().requires_grad_()
    y, expected = made(x), torch.nn.functional.linear(again, weight, plain.bias)
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
    gradient = torch.randn_like(y)
    y.backward(gradient)
    expected.backward(gradient)
    torch.testing.assert_close(x.grad, again.grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(made.bias.grad, plain.bias.grad, rtol=1e-5, atol=1e-5)
    assert made.weight.grad is None


@pytest.mark.parametrize("compute", [None, "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("kind_of_x", ["float16", "bfloat16", "float32"])
def test_compute_dtype(layer, device, compute, kind_of_x):
    made, _ = layer
    made.compute_dtype = None if compute is None else getattr(torch, compute)
    x = torch.randn(4, 96, device=device).to(getattr(torch, kind_of_x))
    y = made(x)
    assert y.dtype is x.dtype
    inner = made.compute_dtype or x.dtype
    wide = [t.double() for t in (x.to(inner), made.weight.dequantize(), made.bias.to(inner))]
    exact, sizes = (torch.nn.functional.linear(*ts) for ts in (wide, [t.abs() for t in wide]))
    eps = max(torch.finfo(dtype).eps for dtype in (inner, x.dtype))
    # Tensor cores get the values of codes rounded to the type that is computed in.
    terms = 1e-6 if device == "cpu" else MATMUL.tolerances[str(inner).removeprefix("torch.")].terms
    assert ((y.double() - exact).abs() <= eps * exact.abs() + terms * sizes).all()


def test_an_adapter_learns_through_the_frozen_base(layer, device):
    """QLoRA: the base passes gradients on and gets none."""
    base, _ = layer
    base.requires_grad_(False)
    first = torch.nn.Linear(24, 96, bias=False, device=device)
    low, high = torch.nn.Linear(96, 2, bias=False, device=device), torch.nn.Linear(2, 40, bias=False, device=device)
    x, target = torch.randn(64, 24, device=device), torch.randn(64, 40, device=device)
    before = {key: value.clone() for key, value in base.state_dict().items()}
    optimizer = torch.optim.AdamW([*first.parameters(), *low.parameters(), *high.parameters()], lr=1e-2)
    losses = []
    for _ in range(30):
        h = first(x)
        loss = torch.nn.functional.mse_loss(base(h) + high(low(h)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.9 * losses[0]
    h = first(x)
    weight = base.weight.dequantize() + high.weight @ low.weight
    exact = torch.autograd.grad(
        torch.nn.functional.mse_loss(torch.nn.functional.linear(h, weight, base.bias), target), first.weight
    )[0]
    optimizer.zero_grad()
    h = first(x)
    torch.nn.functional.mse_loss(base(h) + high(low(h)), target).backward()
    torch.testing.assert_close(first.weight.grad, exact, rtol=1e-4, atol=1e-6)
    same(dict(base.state_dict()), before)


def test_nothing_is_computed_before_it_is_quantized():
    from kernelwright import nn

    made = nn.LinearNF4(96, 40)
    assert "not quantized yet" in str(made)
    with pytest.raises(errors.InvalidArgument, match=r"not quantized yet: move the layer .* layer.to\(device\)"):
        made(torch.randn(2, 96))
    with pytest.raises(errors.InvalidArgument, match="not quantized yet"):
        made.weight.dequantize()


def test_moved_on_first_use_and_only_then(kind, device):
    from kernelwright import nn

    made = nn.Linear4bit(96, 40, **kind)
    assert made.weight.shape == (40, 96)
    made.half()
    assert made.weight.dtype is torch.float16
    made.to(device)
    assert made.weight.shape == (40 * 96 // 2, 1)
    assert made.quant_state is made.weight.quant_state
    assert made.weight.quant_state.dtype is torch.float16
    before = weights(made)
    for convert in (made.float, made.bfloat16, made.half, lambda: made.to(torch.bfloat16), made.cpu):
        convert()
        same(weights(made), before)
    assert made.bias.dtype is torch.bfloat16


def weights(layer):
    """The parts of the weight in a state dict, on the CPU."""
    return {key: value.cpu().clone() for key, value in layer.state_dict().items() if key.startswith("weight")}


def test_state_of_another_device_follows(layer):
    made, _ = layer
    made.to("meta")
    state = made.weight.quant_state
    assert {t.device.type for t in (made.weight, state.absmax, state.code)} == {"meta"}
    assert state is made.quant_state


@pytest.mark.parametrize("storage", ["uint8", "int8", "float16", "bfloat16", "float32"])
def test_packed_bytes_are_the_same_in_any_storage(kind, device, storage):
    from kernelwright import nn

    plain = torch.nn.Linear(96, 40, device=device)
    layers = [nn.Linear4bit(96, 40, **kind, quant_storage=getattr(torch, name)) for name in ("uint8", storage)]
    for one in layers:
        one.load_state_dict(plain.state_dict())
        one.to(device)
    bytes_of, seen = layers
    assert seen.weight.dtype is getattr(torch, storage)
    assert torch.equal(seen.weight.data.view(torch.uint8).view(-1), bytes_of.weight.data.view(-1))
    x = torch.randn(2, 96, device=device)
    assert torch.equal(seen(x), bytes_of(x))
    seen.half().bfloat16()
    assert torch.equal(seen.weight.data.view(torch.uint8).view(-1), bytes_of.weight.data.view(-1))
    loaded = nn.Linear4bit(96, 40, device=device)
    loaded.load_state_dict(seen.state_dict())
    assert loaded.weight.dtype is getattr(torch, storage)


def test_copies_are_whole_and_apart(layer, device):
    made, _ = layer
    x = torch.randn(2, 96, device=device)
    y = made(x)
    for other in (
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),  # noqa: S301
        copy.deepcopy(torch.nn.Sequential(made))[0],
    ):
        assert torch.equal(other(x), y)
        assert other.weight.quant_state is other.quant_state
        assert other.weight.quant_state == made.weight.quant_state
        assert str(other) == str(made)
        other.weight.data.zero_()
        other.quant_state.absmax.zero_()
        assert other.quant_state != made.quant_state
        assert torch.equal(made(x), y)


def test_state_dict_goes_round(layer, device):
    from kernelwright import nn

    made, _ = layer
    x = torch.randn(2, 96, device=device)
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    same(state, dict(made.state_dict()))
    for other, assign in (
        (nn.Linear4bit(96, 40, device=device), False),  # not quantized, and of another type
        (nn.Linear4bit(96, 40, quant_type="nf4").to(device), False),
        (nn.Linear4bit(96, 40, device="meta"), True),
    ):
        assert str(other.load_state_dict(state, assign=assign)) == "<All keys matched successfully>"
        same(dict(other.state_dict()), state)
        assert torch.equal(other(x), made(x))
        assert other.quant_state is other.weight.quant_state


@pytest.mark.parametrize("quantized", [False, True])
def test_what_is_loaded_is_a_copy(layer, device, quantized):
    """As torch's load_state_dict makes it: the checkpoint may be a file that is mapped, or be loaded twice."""
    from kernelwright import nn

    made, _ = layer
    state, x = made.state_dict(), torch.randn(2, 96, device=device)
    y = made(x)
    other = nn.Linear4bit(96, 40, device=device)
    other = other.to(device) if quantized else other
    other.load_state_dict(state)
    for value in state.values():
        value.zero_()
    assert torch.equal(other(x), y)


def test_emptied_and_loaded(layer, device):
    """How torch brings a model from meta to a device before its values are there."""
    made, _ = layer
    x = torch.randn(2, 96, device=device)
    state, y = made.state_dict(), made(x)
    with pytest.raises(NotImplementedError, match="to_empty"):
        copy.deepcopy(made).to("meta").to(device)
    torch.nn.Sequential(made.to("meta")).to_empty(device=device)
    assert str(made.load_state_dict(state)) == "<All keys matched successfully>"
    assert torch.equal(made(x), y)


@pytest.mark.parametrize("default", ["float64", "bfloat16", "meta"])
def test_what_torch_makes_by_default_is_nothing_to_a_layer(layer, device, default):
    """A script may have set another type, or be within a device that makes models without memory."""
    from kernelwright import nn

    made, plain = layer
    x, settings = torch.randn(2, 96, device=device), {"quant_type": made.quant_state.quant_type}
    before, expected = torch.get_default_dtype(), made.double()(x.double())
    try:
        if default != "meta":
            torch.set_default_dtype(getattr(torch, default))
        with torch.device("meta" if default == "meta" else device):
            again = nn.Linear4bit(96, 40, device="cpu", compress_statistics=made.quant_state.nested, **settings)
            again.load_state_dict(plain.float().state_dict(), assign=True)
            again = again.to(device)
            other = nn.Linear4bit(96, 40, **settings)
            other.load_state_dict(again.state_dict(), assign=True)
            found = [each.double()(x.double()) for each in (again, other)]
    finally:
        torch.set_default_dtype(before)
    assert torch.equal(found[0], expected)
    assert torch.equal(found[1], expected)
    same(dict(other.state_dict()), dict(made.state_dict()))


def test_loading_is_strict(layer, device):
    from kernelwright import nn

    made, _ = layer
    state = dict(made.state_dict())
    blob = next(key for key in state if "quant_state" in key)

    def refused(changes, words, target=None):
        target = target or nn.Linear4bit(96, 40).to(device)
        before = weights(target)
        given = {key: value for key, value in (state | changes).items() if value is not None}
        with pytest.raises(RuntimeError, match=words):
            target.load_state_dict(given)
        same(weights(target), before)

    refused({"weight.absmax": None}, "lack absmax and hold nothing too many")
    refused({blob: None}, r"lack .*quant_type, shape and hold")
    refused({"weight.absmax": state["weight.absmax"][:-1]}, "has .* elements, but must have 60: one for each block")
    refused({"weight": state["weight"][:-1]}, "packed has 1919 elements, but must have 1920")
    refused({"weight.quant_map": state["weight.quant_map"] + 0.1}, "quant_map has other values")
    refused({blob: torch.zeros(5, dtype=torch.uint8)}, "holds no JSON")
    refused({key: None for key in state if key.startswith("weight.")}, "no scales .* beside it")
    refused(
        {}, r"is of shape \(40, 96\) in the checkpoint, but \(96, 40\)", nn.Linear4bit(40, 96, bias=False).to(device)
    )
    with pytest.raises(RuntimeError, match=r"Missing key.* \"weight\""):
        nn.Linear4bit(96, 40).load_state_dict({"bias": state["bias"]})
    with pytest.raises(RuntimeError, match=r"Unexpected key.* \"weight.more\""):
        nn.Linear4bit(96, 40).load_state_dict(state | {"weight.more": torch.zeros(1)})


def test_an_ordinary_weight_for_a_quantized_layer(layer, device):
    made, _ = layer
    other = torch.nn.Linear(96, 40, device=device)
    kept = str(made), made.weight.quant_state.dtype
    made.load_state_dict(other.state_dict())
    assert (str(made), made.weight.quant_state.dtype) == kept
    assert (made.weight.dequantize() - other.weight).abs().max() <= 0.18 * other.weight.abs().max()


def test_a_weight_that_lost_its_class(layer, device):
    """FSDP puts a plain tensor in the parameter's place; the layer remembers the state."""
    made, _ = layer
    x = torch.randn(2, 96, device=device)
    y = made(x)
    data = made.weight.data
    made.weight = torch.nn.Parameter(data, requires_grad=False)
    assert torch.equal(made(x), y)
    assert "weight.absmax" in made.state_dict()


def test_attributes_by_the_names_of_a_state_dict(layer):
    """FSDP finds each key of a state dict attribute by attribute."""
    made, _ = layer
    for key, value in made.state_dict().items():
        found = made
        parts = key.split(".")
        for part in parts:
            found = made.weight.quant_state if part == "quant_state" else getattr(found, part)
        assert torch.equal(found, value), key
    assert not hasattr(made.weight, "nothing")


@pytest.mark.skipif(
    torch.__version__.startswith("2.4."), reason="torch 2.4 does not trace a Params4bit (docs/use.md, Limits)"
)
def test_compiles_as_one_graph(layer, device):
    made, _ = layer
    model = torch.nn.Sequential(torch.nn.Linear(96, 96, device=device), made)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = torch.randn(3, 96, device=device)
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-6, atol=1e-6)
    compiled(x).sum().backward()
    found = model[0].weight.grad.clone()
    model.zero_grad()
    model(x).sum().backward()
    torch.testing.assert_close(found, model[0].weight.grad, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dim", [64, 128, 96, 30])
def test_embedding(kind, device, dim, seed):
    from kernelwright import nn

    torch.manual_seed(seed)
    plain = torch.nn.Embedding(50, dim, device=device)
    made = nn.Embedding4bit(50, dim, quant_type=kind["quant_type"])
    made.weight.compress_statistics = kind["compress_statistics"]
    made.load_state_dict(plain.state_dict())
    made.to(device)
    ids = torch.randint(0, 50, (2, 3), device=device)
    assert torch.equal(made(ids), made.weight.dequantize()[ids])
    assert (made(ids) - plain(ids)).abs().max() <= 0.18 * plain.weight.abs().max()
    again = nn.Embedding4bit(50, dim, device=device)
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(ids), made(ids))


def test_wrong_settings():
    from kernelwright import nn

    with pytest.raises(errors.InvalidArgument, match="quant_type is 'int4', but must be 'nf4' or 'fp4'"):
        nn.Linear4bit(64, 64, quant_type="int4")
    with pytest.raises(errors.InvalidArgument, match="blocksize is 48"):
        nn.Params4bit(torch.zeros(64, 64), blocksize=48)
    with pytest.raises(errors.InvalidDtype, match=r"quant_storage is torch\.int64"):
        nn.Linear4bit(64, 64, quant_storage=torch.int64)
    with pytest.raises(errors.InvalidArgument, match=r"no whole number of torch\.float32"):
        nn.Linear4bit(3, 3, quant_storage=torch.float32).to("cpu")
    with pytest.raises(errors.InvalidDtype, match=r"has dtype torch\.float64"):
        nn.Linear4bit(64, 64).double().to("cpu")
    made = nn.Linear4bit(64, 64).to("cpu")
    with pytest.raises(errors.InvalidArgument, match="its last dimension must be 64"):
        made(torch.randn(2, 32))
