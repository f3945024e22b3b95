# SPDX-License-Identifier: MIT
"""torch.func with `kernelwright.<op>`: gradients, Jacobians, batches and gradients of each sample, beside torch's own."""

from __future__ import annotations

from collections import Counter

import pytest

import kernelwright
from kernelwright import errors
from tests.python.tensors import torch

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")]

F = torch.nn.functional
COLS = 16


def _swiglu(gate, up):
    return F.silu(gate) * up


ANGLES = torch.arange(3 * COLS // 2).view(3, COLS // 2) / 7.0


def _heads(x):
    return x.unflatten(-1, (2, -1)).transpose(0, 1).unsqueeze(0)


def _rope(x, w):
    return kernelwright.rope((x * w)[None, None], ANGLES.cos(), ANGLES.sin())[0, 0]


def _turned(x, w):
    a, b = (x * w).chunk(2, -1)
    cos, sin = ANGLES.cos(), ANGLES.sin()
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _attention(x, w):
    return kernelwright.attention(_heads(x), _heads(x * w), _heads(x + w), scale=0.5)[0]


def _torchs_attention(x, w):
    """Written out: torch's kernels have no second derivative."""
    scores = _heads(x) @ _heads(x * w).transpose(-1, -2) * 0.5
    return (scores.softmax(-1) @ _heads(x + w))[0]


PAIRS = {
    "rms_norm": (kernelwright.rms_norm, lambda x, w: F.rms_norm(x, (COLS,), w, 1e-6), (COLS,)),
    "layer_norm": (kernelwright.layer_norm, lambda x, w: F.layer_norm(x, (COLS,), w, None, 1e-5), (COLS,)),
    "residual": (
        lambda x, w: torch.cat(kernelwright.rms_norm(x, w, x * 2)),
        lambda x, w: torch.cat((F.rms_norm(x * 3, (COLS,), w, 1e-6), x * 3)),
        (COLS,),
    ),
    "swiglu": (kernelwright.swiglu, _swiglu, (3, COLS)),
    "linear": (lambda x, w: kernelwright.linear(x, w, None, "gelu"), lambda x, w: F.gelu(F.linear(x, w)), (5, COLS)),
    "rope": (_rope, _turned, (COLS,)),
    "attention": (_attention, _torchs_attention, (COLS,)),
}
each_pair = pytest.mark.parametrize("pair", PAIRS)


def loss(function):
    return lambda *args: function(*args).pow(2).sum()


def both(pair, transform, *args):
    mine, theirs, _ = PAIRS[pair]
    torch.testing.assert_close(transform(mine)(*args), transform(theirs)(*args), rtol=2e-4, atol=2e-4)


def given(pair):
    draw = torch.Generator().manual_seed(3)
    return torch.randn(4, 3, COLS, generator=draw), torch.randn(PAIRS[pair][2], generator=draw)


@each_pair
@pytest.mark.parametrize("place", [0, 1])
def test_gradients(pair, place):
    batch, other = given(pair)
    both(pair, lambda f: torch.func.grad(loss(f), place), batch[0], other)


@each_pair
def test_vjp_and_jacobians(pair):
    batch, other = given(pair)
    both(pair, lambda f: torch.func.jacrev(f, (0, 1)), batch[0], other)
    grad = torch.ones_like(PAIRS[pair][1](batch[0], other))
    both(pair, lambda f: lambda *args: torch.func.vjp(f, *args)[1](grad), batch[0], other)


@each_pair
@pytest.mark.parametrize("dims", [(0, None), (1, None), (None, 0), (0, 0)])
def test_batches(pair, dims):
    batch, other = given(pair)
    args = [batch if dims[0] is not None else batch[0], other if dims[1] is None else other.expand(4, *other.shape)]
    if dims[0] == 1:
        args[0] = batch.transpose(0, 1)
    both(pair, lambda f: torch.vmap(f, dims), *args)


@each_pair
def test_gradients_of_each_sample(pair):
    batch, other = given(pair)
    both(pair, lambda f: torch.vmap(torch.func.grad(loss(f), 1), (0, None)), batch, other)
    both(pair, lambda f: torch.func.grad(lambda x, w: torch.vmap(f, (0, None))(x, w).pow(2).sum()), batch, other)


@each_pair
def test_second_derivatives(pair):
    batch, other = given(pair)
    both(pair, lambda f: torch.func.grad(lambda x, w: torch.func.grad(loss(f))(x, w).pow(2).sum()), batch[0], other)


def test_a_layer_with_a_4bit_weight():
    layer = kernelwright.nn.LinearNF4(64, 8).to("cpu")
    x = torch.randn(4, 64)
    plain = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(layer(plain).pow(2).sum(), plain)
    torch.testing.assert_close(torch.func.grad(lambda x: layer(x).pow(2).sum())(x), expected)


def test_by_torch_ops_it_is_refused_in_words():
    """As torch refuses it for its own operators written in Python; forward mode is refused both ways."""
    x = torch.ones(3, 8)
    with pytest.raises(errors.Unsupported, match=r"records no gradients within torch\.func\.grad.*call kernelwright"):
        torch.func.grad(lambda x: torch.ops.kernelwright.rms_norm(x).sum())(x)
    for call in (kernelwright.rms_norm, torch.ops.kernelwright.rms_norm):
        with pytest.raises(errors.Unsupported, match="no forward-mode derivative"):
            torch.func.jvp(call, (x,), (x,))


FOUR_BIT = kernelwright.quantize_4bit(torch.ones(4, COLS), 32)
CODES, SCALES = kernelwright.quantize_rows_int8(torch.ones(5, COLS))
FP8 = kernelwright.quantize_rows_fp8(torch.ones(5, COLS))


def of_fp8(x, w):
    codes, scale = kernelwright.quantize_rows_fp8(x * w)
    return kernelwright.matmul_fp8(codes, FP8[0], scale, FP8[1], dtype=torch.float32), scale


ROWS = {
    "rms_norm": (lambda x, w: torch.ops.kernelwright.rms_norm(x, w, 1e-6), (0, None)),
    "residual": (lambda x, w: torch.ops.kernelwright.rms_norm.residual(x, x * 2, w, 1e-6), (1, None)),
    "layer_norm": (kernelwright.layer_norm, (0, None)),
    "swiglu": (lambda x, w: kernelwright.swiglu(x * w, x), (0, None)),
    "one without a batch": (lambda x, w: kernelwright.swiglu(x, w.expand(3, COLS)), (0, None)),
    "linear": (lambda x, w: kernelwright.linear(x, w.expand(5, COLS), None, "gelu"), (0, None)),
    "gated_linear": (lambda x, w: kernelwright.gated_linear(x, w.expand(6, COLS), None, "silu"), (1, None)),
    "matmul_4bit": (lambda x, w: kernelwright.matmul_4bit(x, *FOUR_BIT, 4, 32) * w[:4], (1, None)),
    "quantize_rows_int8": (lambda x, w: kernelwright.quantize_rows_int8(x, weight=w, eps=1e-6), (0, None)),
    "matmul_int8": (
        lambda x, w: kernelwright.matmul_int8(x.to(torch.int8), CODES, x[..., 0] * w[0], SCALES),
        (0, None),
    ),
    "fp8": (of_fp8, (1, None)),
    "rope": (lambda x, w: kernelwright.rope((x * w)[None, None], ANGLES.cos(), ANGLES.sin()), (1, None)),
    "rope of pairs": (
        lambda x, w: kernelwright.rope(
            _heads(x), ANGLES[None, :, :4].cos(), ANGLES[None, :, :4].sin(), k=_heads(x * w)
        ),
        (0, None),
    ),
    "attention": (_attention, (0, None)),
    "attention with a mask": (
        lambda x, w: kernelwright.attention(_heads(x), _heads(x), _heads(x * w), mask=(x > 0)[None, None, :, :3]),
        (1, None),
    ),
}


@pytest.mark.skipif(not hasattr(torch.library, "register_vmap"), reason="this torch takes no rules for vmap")
@pytest.mark.parametrize("kind", ROWS)
def test_a_batch_of_rows_is_one_call(kind):
    """With a weight for each sample, or a sum for each, it is a call a sample."""
    call, dims = ROWS[kind]
    draw = torch.Generator().manual_seed(5)
    x, w = torch.randn(4, 3, COLS, generator=draw).transpose(0, dims[0]), torch.randn(COLS, generator=draw)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile, torch.no_grad():
        found = torch.vmap(call, dims)(x, w)
    calls = Counter(event.name for event in profile.events() if event.name.startswith("kernelwright::"))
    assert max(calls.values()) <= 2, calls  # the operator, and the same for its own torch.ops entry
    for place in range(4):
        expected = call(x.select(dims[0], place), w)
        for a, b in zip(*(y if isinstance(y, tuple) else (y,) for y in (found, expected)), strict=True):
            torch.testing.assert_close(a[place], b)


def _calls(function):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile, torch.no_grad():
        found = function()
    return found, Counter(event.name for event in profile.events() if event.name.startswith("kernelwright::"))


def _attended(q, k, v, mask, sinks, slopes):
    return kernelwright.attention(q, k, v, mask=mask, sinks=sinks, alibi_slopes=slopes, return_lse=True)


def _drawn(*shapes):
    draw = torch.Generator().manual_seed(7)
    return [torch.randn(shape, generator=draw) for shape in shapes]


OF_ATTENTION = _drawn((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8), (2, 1, 3, 5), (4,), (2, 4))


@pytest.mark.skipif(not hasattr(torch.library, "register_vmap"), reason="this torch takes no rules for vmap")
@pytest.mark.parametrize(("batched", "calls"), [
    ({0}, 1), ({0, 1, 2}, 1), ({1, 3}, 1), ({0, 5}, 1), ({0, 4}, 1), ({4}, 1), ({0, 3, 4}, 4),
], ids=str)  # fmt: skip
def test_a_batch_of_attention_is_one_call(batched, calls):
    """As more batches; with sinks, which batches share, as more heads; with both and a mask of batches a call each."""
    args = [_drawn((4, *t.shape))[0] if place in batched else t for place, t in enumerate(OF_ATTENTION)]
    dims = tuple(0 if place in batched else None for place in range(6))
    found, seen = _calls(lambda: torch.vmap(_attended, dims)(*args))
    assert seen["kernelwright::attention"] <= calls + 1, seen
    for place in range(4):
        one = _attended(*(t if dim is None else t[place] for t, dim in zip(args, dims, strict=True)))
        for a, b in zip(found, one, strict=True):
            torch.testing.assert_close(a[place], b)


@pytest.mark.skipif(not hasattr(torch.library, "register_vmap"), reason="this torch takes no rules for vmap")
def test_a_batch_of_sequences_is_more_heads():
    q, k, v = _drawn((4, 7, 4, 8), (7, 2, 8), (7, 2, 8))
    starts = torch.tensor([0, 3, 7], dtype=torch.int32)

    def attended(q):
        return kernelwright.attention_varlen(q, k, v, starts, starts, 4, 4, causal=True, return_lse=True)

    found, seen = _calls(lambda: torch.vmap(attended)(q))
    assert seen["kernelwright::attention_varlen"] <= 2, seen
    for place in range(4):
        for a, b in zip(found, attended(q[place]), strict=True):
            torch.testing.assert_close(a[place], b)


@pytest.mark.skipif(not hasattr(torch.library, "register_vmap"), reason="this torch takes no rules for vmap")
@pytest.mark.parametrize("shape", [(2,), (2, 3), (1, 3)])
def test_a_batch_of_positions(shape):
    """They are those of batches or, [1, rows], of all of them: then it is a call for each."""
    (x,) = _drawn((4, 2, 2, 3, COLS))
    positions = torch.randint(0, 9, (4, *shape), generator=torch.Generator().manual_seed(1))
    angles = torch.arange(9 * COLS // 2).view(9, COLS // 2) / 5.0

    def turned(x, positions):
        return kernelwright.rope(x, angles.cos(), angles.sin(), positions=positions)

    found, seen = _calls(lambda: torch.vmap(turned)(x, positions))
    assert seen["kernelwright::rope"] <= (5 if shape == (1, 3) else 2), seen
    for place in range(4):
        torch.testing.assert_close(found[place], turned(x[place], positions[place]))


@pytest.mark.skipif(not hasattr(torch.library, "register_vmap"), reason="this torch takes no rules for vmap")
def test_a_weight_for_each_sample_is_a_call_for_each():
    x, w = torch.randn(4, 3, COLS), torch.randn(4, COLS)
    found = torch.vmap(lambda x, w: torch.ops.kernelwright.rms_norm(x, w, 1e-6))(x, w)
    for place in range(4):
        torch.testing.assert_close(found[place], kernelwright.rms_norm(x[place], w[place]))
    grad = torch.vmap(lambda g, h: torch.ops.kernelwright.rms_norm.backward(g, h, w[0], None, 1e-6, True))(x, x)
    for place in range(4):
        one = torch.ops.kernelwright.rms_norm.backward(x[place], x[place], w[0], None, 1e-6, True)
        torch.testing.assert_close(grad[0][place], one[0])
        torch.testing.assert_close(grad[1][place], one[1])
