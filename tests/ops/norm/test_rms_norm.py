# SPDX-License-Identifier: MIT
"""kernelwright.rms_norm: what it refuses and in which words, aliasing, in place, sizes, and hostile calls at random."""

from __future__ import annotations

import json
import random

import pytest

import kernelwright
from kernelwright import errors, ops
from kernelwright.ops._record import Tolerance
from kernelwright_toolchain.device.memory import available
from tests.python import tensors
from tests.python.support import run
from tests.python.tensors import torch

pytestmark = pytest.mark.torch

OP = ops.record("rms_norm")


def f32(*shape, device="cpu"):
    return torch.randn(*shape, device=device)


REFUSALS = [
    ("a scalar", lambda f: f(torch.tensor(1.0)), errors.InvalidArgument, r"x has shape \(\), .* 1 to 65536"),
    ("no columns", lambda f: f(f32(3, 0)), errors.InvalidArgument, r"x has shape \(3, 0\)"),
    ("too many columns", lambda f: f(f32(1, 65537)), errors.InvalidArgument, r"x has shape \(1, 65537\)"),
    ("integers", lambda f: f(torch.ones(2, 4, dtype=torch.int32)), errors.InvalidDtype, "x has dtype torch.int32, but must have torch.float32 or"),
    ("complex", lambda f: f(torch.ones(2, 4, dtype=torch.complex64)), TypeError, "torch.complex64"),
    ("bool", lambda f: f(torch.ones(2, 4, dtype=torch.bool)), TypeError, "torch.bool"),
    ("float8", lambda f: f(torch.ones(2, 4).to(torch.float8_e5m2)), TypeError, "float8"),
    ("weight too short", lambda f: f(f32(2, 4), f32(3)), ValueError, r"weight has shape \(3,\), but must have \(4,\), as x has \(2, 4\)"),
    ("weight with rows", lambda f: f(f32(2, 4), f32(1, 4)), ValueError, r"weight has shape \(1, 4\)"),
    ("weight of a float32 x", lambda f: f(f32(2, 4), f32(4).half()), errors.InvalidDtype, "must have torch.float32$"),
    ("weight of another type", lambda f: f(f32(2, 4), f32(4).half()), errors.InvalidDtype, "weight has dtype torch.float16, but must have torch.float32"),
    ("weight wider than float32", lambda f: f(f32(2, 4), f32(4).double()), TypeError, "weight has dtype torch.float64"),
    ("bfloat16 weight of a float16 x", lambda f: f(f32(2, 4).half(), f32(4).bfloat16()), TypeError, "must have torch.float16 or torch.float32"),
    ("residual of another shape", lambda f: f(f32(2, 4), None, f32(4)), ValueError, r"residual has shape \(4,\), but must have \(2, 4\)"),
    ("residual of another type", lambda f: f(f32(2, 4), None, f32(2, 4).half()), errors.InvalidDtype, "residual has dtype torch.float16"),
    ("meta weight", lambda f: f(f32(2, 4), torch.ones(4, device="meta")), ValueError, "weight is on meta, but x is on cpu"),
    ("meta residual", lambda f: f(f32(2, 4), None, torch.ones(2, 4, device="meta")), ValueError, "residual is on meta, but x is on cpu"),
    ("negative eps", lambda f: f(f32(2, 4), eps=-1e-6), ValueError, "eps is -1e-06"),
    ("eps that is no number", lambda f: f(f32(2, 4), eps=float("nan")), ValueError, "eps is nan"),
    ("infinite eps", lambda f: f(f32(2, 4), eps=float("inf")), ValueError, "eps is inf"),
    ("eps near float32's largest", lambda f: f(f32(2, 4), eps=3.2e38), ValueError, r"^rms_norm: eps is 3\.2e\+38"),
    ("in place without a residual", lambda f: f(f32(2, 4), inplace=True), ValueError, "residual is None"),
    ("in place, weight with gradients", lambda f: f(f32(2, 4), f32(4).requires_grad_(), f32(2, 4), inplace=True), errors.Unsupported, "'weight' requires them"),
    ("in place, repeated rows, negated on access", lambda f: f(f32(2, 4), None, torch._neg_view(f32(4)).expand(2, 4), inplace=True), errors.InvalidArgument, "may lie in one place"),
    ("in place, repeated rows", lambda f: f(f32(2, 4), None, f32(4).expand(2, 4), inplace=True), errors.InvalidArgument, "may lie in one place"),
    ("sparse", lambda f: f(f32(2, 4).to_sparse()), NotImplementedError, "x is a tensor of layout torch.sparse_coo"),
    ("no tensor", lambda f: f([1.0, 2.0]), RuntimeError, "Expected a value of type 'Tensor' for argument 'x'"),
    ("eps that is text", lambda f: f(f32(2, 4), eps="small"), RuntimeError, "argument 'eps'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call(kernelwright.rms_norm)


def test_what_is_written_at_a_misaligned_address_is_refused():
    """Not to be had from torch itself, but from torch.frombuffer. What is read there is copied."""
    x = torch.frombuffer(bytearray(4 * 8 + 1), dtype=torch.float32, offset=1).view(1, 8).fill_(3.0)
    assert torch.allclose(kernelwright.rms_norm(x), torch.ones(1, 8))
    with pytest.raises(errors.InvalidArgument, match="multiple of 4"):
        kernelwright.rms_norm(x.clone(), residual=x, inplace=True)
    assert torch.equal(x, torch.full((1, 8), 3.0))


@pytest.mark.gpu
def test_devices_are_not_mixed():
    x, w, r = f32(2, 4), f32(4), f32(2, 4)
    for args, words in (
        ((x.cuda(), w), "weight is on cpu, but x is on cuda:0"),
        ((x, w.cuda()), "weight is on cuda:0, but x is on cpu"),
        ((x.cuda(), None, r), "residual is on cpu, but x is on cuda:0"),
        ((x, None, r.cuda()), "residual is on cuda:0, but x is on cpu"),
    ):
        with pytest.raises(errors.InvalidArgument, match=words):
            kernelwright.rms_norm(*args)


def near(found, expected):
    tensors.assert_near(found, expected, OP.tolerances[str(found.dtype).partition(".")[2]], "result")


def expected_of(x, weight=None, residual=None, eps=1e-6):
    wide = [None if t is None else t.double().cpu() for t in (x, residual, weight)]
    if residual is None:
        return OP.overload("default").reference(wide[0], wide[2], eps)
    return OP.overload("residual").reference(*wide, eps)


def test_the_public_function(device):
    x, w, r = f32(2, 3, 40, device=device), f32(40, device=device), f32(2, 3, 40, device=device)
    near(kernelwright.rms_norm(x), expected_of(x))
    near(kernelwright.rms_norm(x, w, eps=0.5), expected_of(x, w, eps=0.5))
    y, h = kernelwright.rms_norm(x, w, r)
    near(y, expected_of(x, w, r)[0])
    assert torch.equal(h, x + r)
    total = x + r
    assert torch.equal(kernelwright.rms_norm(x, w, r, inplace=True), y)
    assert torch.equal(r, total)


def test_the_norm_is_of_the_unrounded_sum():
    """Half a unit of float16 that the stored sum loses must be in the norm; the weight puts it across a rounding."""
    x = torch.full((1, 2), 2048.0, dtype=torch.float16)
    r = torch.tensor([[1.0, 0.0]], dtype=torch.float16)
    y, h = kernelwright.rms_norm(x, torch.full((2,), 1 + 2**-11), r, eps=0.0)
    assert h.tolist() == [[2048.0, 2048.0]]
    assert y[0, 0] > y[0, 1], "2049 is more than 2048"


def test_large_half_values_do_not_overflow():
    x = torch.full((2, 4096), 60000.0, dtype=torch.float16)
    assert torch.equal(kernelwright.rms_norm(x), torch.ones_like(x))


def test_aliases_in_place(device):
    """x and weight may be views of the residual that is written."""
    base = f32(40, 40, device=device)
    for pick in (
        lambda b: (b, None, b),
        lambda b: (b.t(), None, b),
        lambda b: (b[1:], None, b[:-1]),
        lambda b: (b[:-1], None, b[1:]),
        lambda b: (b[:, :20], None, b[:, 20:]),
        lambda b: (b[:, :20], b[3, 20:], b[:, 20:]),
        lambda b: (f32(40, 40, device=device), b[39], b),
        lambda b: (f32(40, 40, device=device), b[:, 0], b),
        lambda b: (f32(38, 40, device=device), b[1], b[2:]),
        lambda b: (f32(38, 40, device=device), b[38], b[:38]),
        lambda b: (b.flip(0), None, b.t()),
        lambda b: (b[::2], None, b[1::2]),
    ):
        x, weight, residual = pick(base.clone())
        y, h = expected_of(x, weight, residual)
        near(kernelwright.rms_norm(x, weight, residual, inplace=True), y)
        near(residual, h)


def test_views_that_are_computed_on_access():
    """Conjugate and negative views look like plain tensors, and are not."""
    z = torch.complex(f32(3, 8), f32(3, 8))
    x = z.conj().imag
    assert x.is_neg()
    near(kernelwright.rms_norm(x), expected_of(x.clone()))
    residual = torch.complex(f32(3, 8), f32(3, 8)).conj().imag
    y, h = expected_of(x.clone(), None, residual.clone())
    near(kernelwright.rms_norm(x, None, residual, inplace=True), y)
    near(residual.clone(), h)


def test_broadcast_inputs(device):
    x, r = f32(1, 64, device=device).expand(5, 64), f32(5, 1, device=device).expand(5, 64)
    y, h = kernelwright.rms_norm(x, f32(1, device=device).expand(64), r)
    near(h, (x + r).double().cpu())
    assert y.is_contiguous()


def test_rows_further_apart_than_int32(device):
    """Only the pages that are touched exist."""
    stride = 2**31 + 11
    try:
        x = torch.empty(stride + 64, dtype=torch.float16, device=device).as_strided((2, 64), (stride, 1))
    except RuntimeError as error:
        pytest.skip(f"no room for {2 * stride / 2**30:.0f} GiB of addresses: {error}")
    x.copy_(f32(2, 64))
    near(kernelwright.rms_norm(x), expected_of(x))


MANY = """
import json, sys
import torch, kernelwright
device, rows, cols = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x = torch.empty(rows, cols, dtype=torch.float16, device=device)
x.copy_(torch.randn(cols, device=device).half())
x[:, 0] = torch.arange(rows, device=device) % 200
y = kernelwright.rms_norm(x)
errors = []
for row in (0, 1, rows // 2, rows - 2, rows - 1):
    wide = x[row].double()
    expected = wide / (wide.square().mean() + 1e-6).sqrt()
    errors.append(((y[row].double() - expected).abs() / (expected.abs() + 1e-4)).max().item())
print(json.dumps(errors))
"""


@pytest.mark.slow
def test_more_elements_than_int32(device):
    rows, cols = 32769, 65536
    needed = 2 * rows * cols * 2
    free = available().size if device == "cpu" else torch.cuda.mem_get_info()[0]
    if free < needed + 2**31:
        pytest.skip(f"needs {(needed + 2**31) / 2**30:.0f} GiB of memory, {free / 2**30:.0f} are available")
    # In a process of its own: what this one has once used, its children would seem to use (getrusage counts it).
    done = run(MANY, device, str(rows), str(cols), timeout=300)
    assert done.returncode == 0, done.stderr
    found = torch.tensor(json.loads(done.stdout), dtype=torch.float64)
    tensors.assert_near(
        found, torch.zeros_like(found), Tolerance(0, 1.02 * 2.0**-11), "error relative to the reference"
    )


def any_call(draw):
    """Arguments as a careless or hostile caller would have them; most are wrong somewhere."""
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool]
    dtype = draw.choices(dtypes, [6, 6, 6, 3, 1, 1])[0]
    shape = [draw.choice([0, 1, 2, 3, 5, 8, 33, 64]) for _ in range(draw.choices([0, 1, 2, 3, 4], [1, 4, 9, 4, 2])[0])]

    def tensor(shape, dtype):
        doubled = [size * 2 for size in shape]
        whole = torch.randn(doubled).to(dtype)
        steps = [draw.choice([1, 2]) for _ in shape]
        view = whole[
            tuple(
                slice(draw.choice([0, size]) if step == 1 else 0, None, step)
                for size, step in zip(shape, steps, strict=True)
            )
        ]
        view = view[tuple(slice(0, size) for size in shape)]
        if view.dim() > 1 and draw.random() < 0.2:
            view = view.transpose(*draw.sample(range(view.dim()), 2))
        return view

    def maybe(shape, none):
        roll = draw.random()
        if roll < none:
            return None
        if roll > 0.95:
            shape = [*shape[1:], draw.choice([0, 1, 7])]
        return tensor(shape, dtype if draw.random() < 0.8 else draw.choice(dtypes))

    x = tensor(shape, dtype)
    eps = draw.choice([0.0, 1e-6, 1e-5, 1.0, 1e-30, 3.1e38, -1.0, float("nan")]) if draw.random() < 0.3 else 1e-6
    return x, maybe(list(x.shape[-1:]), 0.4), maybe(list(x.shape), 0.5), {"eps": eps, "inplace": draw.random() < 0.3}


def test_random_calls(seed):
    """Right, or refused with one of our exceptions; never anything between."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    right = 0
    for _ in range(600):
        x, weight, residual, options = any_call(draw)
        before = None if residual is None else residual.clone()
        text = f"{[(tuple(t.shape), t.stride(), t.dtype) if t is not None else None for t in (x, weight, residual)]} {options}"
        try:
            found = kernelwright.rms_norm(x, weight, residual, **options)
        except errors.KernelwrightError as error:
            assert str(error).startswith(("rms_norm: ", "kw_rms_norm: ")), text
            assert residual is None or tensors.same_bits(residual, before), f"refused, but written to: {text}"
            continue
        right += 1
        expected = expected_of(x, weight, before, options["eps"])
        found = found if isinstance(found, tuple) else (found,)
        expected = expected if isinstance(expected, tuple) else (expected,)
        if options["inplace"]:
            found = (*found, residual)
        for a, b in zip(found, expected, strict=True):
            tensors.assert_near(a, b, OP.tolerances[str(a.dtype).partition(".")[2]], text)
    assert right > 100, "too few of the calls were right to show anything"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("norm", [kernelwright.rms_norm, kernelwright.layer_norm])
def test_a_float32_residual_beside_16_bits(norm, dtype, device):
    """As in float32, with y rounded once; derivatives reach both, in the type of each."""
    x, weight = torch.randn(3, 64, device=device).to(dtype), torch.randn(64, device=device).to(dtype)
    residual, grads = torch.randn(3, 64, device=device), []
    for wide in (False, True):
        a, r = x.clone().requires_grad_(), residual.clone().requires_grad_()
        given = (a.float(), weight.float()) if wide else (a, weight)
        y, h = norm(*given, residual=r)
        y = y.to(dtype)
        assert (y.dtype, h.dtype) == (dtype, torch.float32)
        grads.append((y, h, *torch.autograd.grad(y.float().pow(2).sum() + h.sum(), (a, r))))
    assert all(torch.equal(found, expected) for found, expected in zip(*grads, strict=True))
    assert [g.dtype for g in grads[0][2:]] == [dtype, torch.float32]
