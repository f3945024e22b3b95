# SPDX-License-Identifier: MIT
"""What both norms have in common, beside numbers: memory that is gone, and what a mutated launcher got away with."""

from __future__ import annotations

import pytest

import kernelwright
from kernelwright import errors, ops
from tests.python.tensors import freed, torch

pytestmark = pytest.mark.torch

NORMS = ("rms_norm", "layer_norm")
each_norm = pytest.mark.parametrize("norm", NORMS)


@each_norm
@pytest.mark.parametrize("name", ["weight", "residual", "residual in place"])
def test_freed_memory_does_not_count_as_left_out(norm, name, device):
    """To the library NULL is an argument that is not there: the result would lack it, and nobody would know."""
    inplace, name = name.endswith("in place"), name.partition(" ")[0]
    x = torch.randn(3, 8, device=device)
    options = {name: freed(*(x.shape if name == "residual" else (8,)), device=device), "inplace": inplace}
    with pytest.raises(errors.InvalidArgument, match=rf"^{norm}: {name} has shape .* but no memory"):
        getattr(kernelwright, norm)(x, **options)


def test_freed_bias(device):
    with pytest.raises(errors.InvalidArgument, match=r"^layer_norm: bias has shape \(8,\), but no memory"):
        kernelwright.layer_norm(torch.randn(3, 8, device=device), bias=freed(8, device=device))


@each_norm
def test_freed_memory_of_what_must_be_there(norm, device):
    with pytest.raises(errors.InvalidArgument, match=rf"^{norm}: x has shape \(3, 8\), but no memory"):
        getattr(kernelwright, norm)(freed(3, 8, device=device))


@each_norm
def test_freed_gradient_of_the_sum(norm, device):
    x = torch.randn(3, 8, device=device)
    rest = [None] * (1 + (norm == "layer_norm"))
    with pytest.raises(errors.InvalidArgument, match=f"^{norm}: grad_sum has shape .* but no memory"):
        getattr(torch.ops.kernelwright, norm).backward(
            x, x, *rest, freed(3, 8, device=device), 1e-6, *[False for _ in rest]
        )


@each_norm
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("cols", [4096, 4112, 4100])
def test_large_results_have_the_bits_of_small_ones(norm, dtype, cols):
    """From 8 MiB on, stores of the CPU path may be non-temporal: all rows, also those of the other threads, are
    there when the call returns, and the columns after the last whole vector too."""
    ops.register()
    op, dtype, some = getattr(torch.ops.kernelwright, norm), getattr(torch, dtype), 100
    rows = (8 << 20) // (cols * dtype.itemsize) + 3
    x, grad = torch.randn(rows, cols).to(dtype), torch.randn(rows, cols).to(dtype)
    rest = [torch.randn(cols).to(dtype) for _ in range(1 + (norm == "layer_norm"))]
    wanted = [False for _ in rest]
    y, (dx, *_) = op(x, *rest, 1e-6), op.backward(grad, x, *rest, None, 1e-6, *wanted)
    for first in range(0, rows, some):
        part = slice(first, first + some)
        assert torch.equal(y[part], op(x[part], *rest, 1e-6))
        assert torch.equal(dx[part], op.backward(grad[part], x[part], *rest, None, 1e-6, *wanted)[0])


@each_norm
@pytest.mark.parametrize("shared", [1, 2, 3])
def test_a_weight_of_wider_elements_that_ends_in_what_is_written(norm, shared, device):
    """In place, float32 weights of float16 rows: they end twice as far from where they begin as a row's elements do."""
    cols, rows = 8, 64
    memory = torch.randn(4 * cols + rows * cols, device=device).half()
    residual = memory[4 * cols :].view(rows, cols)
    weight = memory[2 * (cols + shared) :][: 2 * cols].view(torch.float32)
    weight[: cols - shared] = torch.randn(cols - shared, device=device)
    memory[4 * cols : 4 * cols + 2 * shared] = torch.tensor([1.0] * shared, device=device).view(torch.float16)
    x, function = torch.randn(rows, cols, device=device).half(), getattr(kernelwright, norm)
    expected, total = function(x, weight.clone(), residual=residual.clone())
    assert torch.equal(function(x, weight, residual=residual, inplace=True), expected)
    assert torch.equal(residual, total)


def meta(*shape):
    return torch.ones(shape, device="meta")


F32 = torch.ones(2, 4)
BACKWARD = [
    ("grad of another shape", {"grad": torch.ones(4)}, errors.InvalidArgument, r"grad has shape \(4,\), but must have \(2, 4\), as h has"),
    ("grad of another type", {"grad": F32.half()}, errors.InvalidDtype, "grad has dtype torch.float16, but must have torch.float32$"),
    ("grad elsewhere", {"grad": meta(2, 4)}, errors.InvalidArgument, "grad is on meta, but h is on cpu"),
    ("grad_sum of another shape", {"grad_sum": torch.ones(4)}, errors.InvalidArgument, r"grad_sum has shape \(4,\)"),
    ("grad_sum of another type", {"grad_sum": F32.bfloat16()}, errors.InvalidDtype, "grad_sum has dtype torch.bfloat16"),
    ("grad_sum elsewhere", {"grad_sum": meta(2, 4)}, errors.InvalidArgument, "grad_sum is on meta, but h is on cpu"),
    ("h without columns", {"h": torch.ones(2, 0)}, errors.InvalidArgument, r"h has shape \(2, 0\), .* 1 to 65536"),
    ("h of integers", {"h": F32.int()}, errors.InvalidDtype, "h has dtype torch.int32"),
    ("weight too long", {"weight": torch.ones(5)}, errors.InvalidArgument, r"weight has shape \(5,\), but must have \(4,\), as h has"),
    ("weight of another type", {"weight": torch.ones(4).half()}, errors.InvalidDtype, "weight has dtype torch.float16"),
    ("weight elsewhere", {"weight": meta(4)}, errors.InvalidArgument, "weight is on meta, but h is on cpu"),
    ("the gradient of no weight", {"weight": None}, errors.InvalidArgument, "weight_grad is True, but weight is None"),
    ("negative eps", {"eps": -1.0}, errors.InvalidArgument, "eps is -1.0"),
]  # fmt: skip


@each_norm
@pytest.mark.parametrize(("wrong", "kind", "words"), [b[1:] for b in BACKWARD], ids=[b[0] for b in BACKWARD])
def test_backward_refuses(norm, wrong, kind, words):
    right = {"grad": F32, "h": F32, "weight": torch.ones(4), "grad_sum": F32, "eps": 1e-6, "weight_grad": True}
    call = getattr(torch.ops.kernelwright, norm).backward
    if norm == "layer_norm":
        right |= {"bias": torch.ones(4), "bias_grad": True}
    call(**right)
    with pytest.raises(kind, match=rf"^{norm}\.backward: {words}"):
        call(**right | wrong)


BIAS = [
    ("too short", None, torch.ones(3), errors.InvalidArgument, r"bias has shape \(3,\), but must have \(4,\), as x has"),
    ("with rows", None, torch.ones(2, 4), errors.InvalidArgument, r"bias has shape \(2, 4\)"),
    ("elsewhere", None, meta(4), errors.InvalidArgument, "bias is on meta, but x is on cpu"),
    ("of another type", None, torch.ones(4).half(), errors.InvalidDtype, "bias has dtype torch.float16, but must have torch.bfloat16 or torch.float32"),
    ("wider than the weight", torch.ones(4).bfloat16(), torch.ones(4), errors.InvalidDtype, "bias has dtype torch.float32, but weight has torch.bfloat16; they must have the same"),
    ("narrower than the weight", torch.ones(4), torch.ones(4).bfloat16(), errors.InvalidDtype, "bias has dtype torch.bfloat16, but weight has torch.float32; they must have the same"),
]  # fmt: skip


@pytest.mark.parametrize(("weight", "bias", "kind", "words"), [b[1:] for b in BIAS], ids=[b[0] for b in BIAS])
def test_bias_refused(weight, bias, kind, words):
    x = F32.bfloat16()
    with pytest.raises(kind, match=f"^layer_norm: {words}"):
        kernelwright.layer_norm(x, weight, bias)
    rest = (torch.ones(4) if weight is None else weight, bias, None, 1e-5, False, False)
    with pytest.raises(kind, match=r"^layer_norm\.backward: bias "):
        torch.ops.kernelwright.layer_norm.backward(x, x, *rest)


def test_in_place_without_a_residual():
    for norm in NORMS:
        with pytest.raises(errors.InvalidArgument, match=f"^{norm}: inplace=True .* residual is None"):
            getattr(kernelwright, norm)(F32, inplace=True)


@each_norm
def test_fakes_refuse_to_write_where_kernels_do(norm):
    """A compiler must not be told of a result that the kernel then refuses to make."""
    overload = ops.record(norm).overload("residual_")
    with torch.inference_mode():
        made_there = torch.ones(2, 4)
    for residual, words in (
        (torch.ones(4).expand(2, 4), "may lie in one place"),
        (made_there, "made in inference mode"),
    ):
        for call in (overload.fake, getattr(torch.ops.kernelwright, norm).residual_):
            with pytest.raises(errors.InvalidArgument, match=rf"^{norm}: residual .*{words}"):
                call(F32, residual)


@each_norm
def test_gradients_that_nobody_wants_are_not_computed(norm, device):
    """A frozen weight beside a row that is trained, as adapters have them: the sums over rows would be for nothing."""
    from torch.utils._python_dispatch import TorchDispatchMode

    asked = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if "backward" in str(function):
                asked.append([value for value in args if isinstance(value, bool)])
            return function(*args, **(kwargs or {}))

    for wanted in (False, True):
        x, parameters = torch.randn(3, 8, device=device, requires_grad=True), [torch.ones(8, device=device)]
        if norm == "layer_norm":
            parameters.append(torch.zeros(8, device=device))
        parameters[-1].requires_grad_(wanted)
        y = getattr(kernelwright, norm)(x, *parameters)
        with Watch():
            y.sum().backward()
        assert asked.pop() == [*[False for _ in parameters[1:]], wanted]
    assert not asked
