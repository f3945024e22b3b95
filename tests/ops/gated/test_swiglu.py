# SPDX-License-Identifier: MIT
"""kernelwright.swiglu: one tensor or two, what is not finite, what it refuses and in which words, hostile calls at random."""

from __future__ import annotations

import random

import pytest

import kernelwright
from kernelwright import _library, errors, ops
from tests.python import tensors
from tests.python.tensors import torch

pytestmark = pytest.mark.torch

OP = ops.record("swiglu")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])


def f32(*shape, device="cpu"):
    return torch.randn(*shape, device=device)


def near(found, overload, *args):
    exact = [a.double() for a in args]
    expected = tensors.outputs(OP.overload(overload).reference(*exact))
    found = tensors.outputs(found)
    for a, b, bound in zip(found, expected, tensors.allowed(OP, overload, exact, expected, found), strict=True):
        tensors.assert_near(a, b, bound, overload)


@each_dtype
@pytest.mark.parametrize("cols", [1, 3, 8, 31, 64, 1000, 4095])
def test_one_packed_tensor_is_two(cols, dtype, device):
    """Bit for bit, though the halves of a tensor of odd width lie off 16 bytes."""
    x, grad = f32(5, 2 * cols, device=device).to(dtype), f32(5, cols, device=device).to(dtype)
    gate, up = (half.contiguous() for half in x.chunk(2, -1))
    assert torch.equal(kernelwright.swiglu(x), kernelwright.swiglu(gate, up))
    apart = tensors.target(OP, "backward")(grad, gate, up)
    assert torch.equal(tensors.target(OP, "packed_backward")(grad, x), torch.cat(apart, -1))


@each_dtype
def test_halves_of_one_tensor_need_no_copy(dtype, device, monkeypatch):
    x = f32(4, 6, 40, device=device).to(dtype)
    gate, up = x.chunk(2, -1)
    near(kernelwright.swiglu(gate, up), "default", gate, up)
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda self: pytest.fail(f"{self.shape} was copied"))
    kernelwright.swiglu(gate, up)


@each_dtype
def test_what_is_not_finite_is_as_in_torch(dtype, device):
    """silu(-inf) is infinity times zero, and the derivative is one of infinity at both ends."""
    ends = [float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1.5, -1.5, 6e4, -6e4, 88.0, -88.0, -89.0, -100.0]
    values = torch.tensor(ends, device=device).to(dtype)
    gate, up = values.repeat_interleave(len(ends)), values.repeat(len(ends))
    grad = torch.ones_like(gate)
    exact = gate.double(), up.double()
    y = torch.nn.functional.silu(exact[0]) * exact[1]
    slope = torch.ops.aten.silu_backward(exact[1], exact[0])
    found = kernelwright.swiglu(gate, up), *tensors.target(OP, "backward")(grad, gate, up)
    for name, a, b in zip(("y", "dgate"), found, (y, slope), strict=False):
        tensors.assert_near(a, b, OP.tolerances[str(dtype)[6:]], name)


@each_dtype
@pytest.mark.parametrize("cols", [4096, 4112, 4100])
def test_large_results_have_the_bits_of_small_ones(cols, dtype):
    """From 8 MiB on, stores of the CPU path may be non-temporal: all rows, also those of the other threads, are
    there when the call returns, and the columns after the last whole vector too."""
    rows, some = (8 << 20) // (cols * dtype.itemsize) + 3, 100
    x, grad = f32(rows, 2 * cols).to(dtype), f32(rows, cols).to(dtype)
    gate, up = (half.contiguous() for half in x.chunk(2, -1))
    calls = {"default": (gate, up), "packed": (x,), "backward": (grad, gate, up), "packed_backward": (grad, x)}
    for overload, args in calls.items():
        found = tensors.outputs(tensors.target(OP, overload)(*args))
        for first in range(0, rows, some):
            parts = [a[first : first + some] for a in args]
            for a, b in zip(found, tensors.outputs(tensors.target(OP, overload)(*parts)), strict=True):
                assert torch.equal(a[first : first + some], b), (overload, first)


def test_the_gradient_of_a_sum(device):
    """Its gradient is one number, expanded: no row of it lies in memory."""
    x = f32(6, 40, device=device).requires_grad_()
    kernelwright.swiglu(x).sum().backward()
    near(x.grad, "packed_backward", torch.ones(6, 20, device=device), x.detach())


def test_results_in_place_through_the_library():
    """The C function may write where it reads; the operator never does."""
    library = _library.load()
    gate, up, grad = f32(7, 33), f32(7, 33), f32(7, 33)
    parts = [v for t in (grad, gate, up) for v in (t.data_ptr(), 33)]
    y, (dgate, dup) = kernelwright.swiglu(gate, up), tensors.target(OP, "backward")(grad, gate, up)
    kept, shape = gate.clone(), (7, 33, library.constants["KW_FLOAT32"])
    library.call("kw_swiglu", library.constants["KW_CPU"], None, gate.data_ptr(), 33, *parts[2:], *shape)
    assert torch.equal(gate, y)
    gate.copy_(kept)
    library.call("kw_swiglu_backward", library.constants["KW_CPU"], None, *parts[2:], *parts, *shape)
    assert torch.equal(gate, dgate)
    assert torch.equal(up, dup)


@pytest.mark.gpu
@pytest.mark.slow
def test_more_elements_than_int32():
    count = 2**31 + 4099
    if torch.cuda.mem_get_info()[0] < 10 * count:
        pytest.skip(f"needs {10 * count / 2**30:.0f} GiB of GPU memory")
    gate = torch.randn(count, device="cuda", dtype=torch.float16)
    up = torch.randn(count, device="cuda", dtype=torch.float16)
    y = kernelwright.swiglu(gate, up)
    for part in (slice(0, 5000), slice(2**30 - 99, 2**30 + 99), slice(2**31 - 5000, None)):
        near(y[part], "default", gate[part], up[part])


REFUSALS = [
    ("a scalar", lambda f: f(torch.tensor(1.0), torch.tensor(1.0)), errors.InvalidArgument, r"gate has shape \(\), but must have at least one"),
    ("a packed scalar", lambda f: f(torch.tensor(1.0)), errors.InvalidArgument, r"x has shape \(\)"),
    ("odd and packed", lambda f: f(f32(2, 7)), errors.InvalidArgument, r"x has shape \(2, 7\), but .* needs an even last dimension"),
    ("integers", lambda f: f(torch.ones(2, 4, dtype=torch.int32)), errors.InvalidDtype, "x has dtype torch.int32, but must have torch.float32 or"),
    ("complex", lambda f: f(torch.ones(2, 4, dtype=torch.complex64)), TypeError, "torch.complex64"),
    ("bool", lambda f: f(torch.ones(2, 4, dtype=torch.bool)), TypeError, "torch.bool"),
    ("up of another shape", lambda f: f(f32(2, 4), f32(4)), ValueError, r"up has shape \(4,\), but must have \(2, 4\), as gate has"),
    ("up of another type", lambda f: f(f32(2, 4), f32(2, 4).half()), errors.InvalidDtype, "up has dtype torch.float16, but must have torch.float32$"),
    ("meta up", lambda f: f(f32(2, 4), torch.ones(2, 4, device="meta")), ValueError, "up is on meta, but gate is on cpu"),
    ("no tensor", lambda f: f([1.0, 2.0]), RuntimeError, "Expected a value of type 'Tensor' for argument 'x'"),
    ("grad of another shape", lambda _: backward(f32(4), f32(2, 4), f32(2, 4)), ValueError, r"grad has shape \(4,\), but must have \(2, 4\)"),
    ("grad as wide as x", lambda _: packed_backward(f32(2, 8), f32(2, 8)), ValueError, r"grad has shape \(2, 8\), but must have \(2, 4\), as x has"),
    ("grad of another type", lambda _: packed_backward(f32(2, 4).half(), f32(2, 8)), errors.InvalidDtype, "grad has dtype torch.float16"),
]  # fmt: skip


def backward(*args):
    return tensors.target(OP, "backward")(*args)


def packed_backward(*args):
    return tensors.target(OP, "packed_backward")(*args)


@pytest.mark.parametrize(("call", "kind", "words"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call(kernelwright.swiglu)


@pytest.mark.gpu
def test_devices_are_not_mixed():
    with pytest.raises(errors.InvalidArgument, match="up is on cpu, but gate is on cuda:0"):
        kernelwright.swiglu(f32(2, 4).cuda(), f32(2, 4))
    with pytest.raises(errors.InvalidArgument, match="grad is on cpu, but gate is on cuda:0"):
        backward(f32(2, 4), f32(2, 4).cuda(), f32(2, 4).cuda())


def any_tensor(draw, shape, dtype):
    """A view with gaps, repeated or turned around, as callers have them."""
    whole = torch.randn([2 * size for size in shape]).to(dtype)
    steps = [draw.choice([1, 1, 2]) for _ in shape]
    view = whole[tuple(slice(0, size * step, step) for size, step in zip(shape, steps, strict=True))]
    if view.dim() > 1 and draw.random() < 0.2:
        first, second = draw.sample(range(view.dim()), 2)
        view = view.transpose(first, second).contiguous().transpose(first, second)
    return view[:1].expand(shape) if shape and shape[0] and draw.random() < 0.1 else view


def any_call(draw):
    """Arguments as a careless or hostile caller would have them; many are wrong somewhere."""
    dtypes = [*DTYPES, torch.float64, torch.int64, torch.bool]
    dtype = draw.choices(dtypes, [6, 6, 6, 3, 1, 1])[0]
    shape = [draw.choice([0, 1, 2, 3, 5, 8, 33, 64]) for _ in range(draw.choices([0, 1, 2, 3, 4], [1, 4, 9, 4, 2])[0])]
    overload = draw.choice([o.name for o in OP.overloads])
    packed = [*shape[:-1], 2 * shape[-1]] if shape and draw.random() < 0.9 else shape
    wanted = {"default": [shape] * 2, "packed": [packed], "backward": [shape] * 3, "packed_backward": [shape, packed]}
    args = []
    for wish in wanted[overload]:
        odd = draw.random() < 0.07
        actual = [*wish[1:], draw.choice([0, 1, 7])] if odd else wish
        args.append(any_tensor(draw, actual, draw.choice(dtypes) if draw.random() < 0.05 else dtype))
    return overload, args


def test_random_calls(seed):
    """Right, or refused with one of our exceptions; never anything between."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    right = 0
    for _ in range(600):
        overload, args = any_call(draw)
        text = f"{overload} {[(tuple(t.shape), t.stride(), t.dtype) for t in args]}"
        try:
            found = tensors.target(OP, overload)(*args)
        except errors.KernelwrightError as error:
            assert str(error).startswith(("swiglu: ", "kw_swiglu")), text
            continue
        right += 1
        near(found, overload, *args)
    assert right > 200, "too few of the calls were right to show anything"
