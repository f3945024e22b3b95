# SPDX-License-Identifier: MIT
"""Calls past torch's dispatcher: the same in everything, and none where something wants to see operators."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

import kernelwright
from kernelwright import _library, errors, ops
from kernelwright.ops import _direct
from tests.python import tensors
from tests.python.tensors import OVERLOADS, case_id, torch

pytestmark = pytest.mark.torch

LAUNCHED = [(op, overload) for op, overload in OVERLOADS if overload.launch]
# quantize_4bit is for loading a model, not for using it, and no step of training calls those of blocks; a step of an
# optimizer is one call of the C function for all of its tensors, and of no operator.
WITHOUT = {
    "quantize_4bit", "quantize_blockwise", "dequantize_blockwise",
    "optimizer_update_32bit", "optimizer_update_8bit_blockwise",
}  # fmt: skip
# For linear torch's own product is the faster way on the CPU and for few rows: its launch leaves those to the operator.
SERVED = [(op, overload) for op, overload in LAUNCHED if op.name != "linear"]


class Refusing:
    """In place of what may not be called."""

    def __init__(self, real):
        self._schema = real._schema

    def __call__(self, *_):
        raise AssertionError("called")


def straight(op, overload):
    """`_direct.calls`' function of an overload."""
    ops.register()
    return getattr(getattr(_direct.calls, op.name), overload.name)


def nothing(*_):
    pass


def copies(args):
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in args]


def same_refusal(call, target, args):
    """Both raise, and say the same, or neither does."""
    said = []
    for function in (call, target):
        try:
            said.append([tensor.tolist() for tensor in tensors.outputs(function(*args))])
        except Exception as error:  # noqa: BLE001 - whatever torch says
            said.append((type(error), str(error).partition("\n")[0]))
    assert said[0] == said[1]


def test_every_operator_has_a_way():
    for op, overload in OVERLOADS:
        assert callable(straight(op, overload))
        types = [str(argument.type) for argument in tensors.target(op, overload.name)._schema.arguments]
        assert "Tensor" in types[0]
        assert types == sorted(types, key=lambda name: "Tensor" not in name), "tensors come first"
    assert {op.name for op, overload in OVERLOADS if not overload.launch} == WITHOUT


@pytest.mark.parametrize(("op", "overload"), LAUNCHED, ids=case_id)
def test_same_bits_as_the_operator(op, overload, device):
    call, target = straight(op, overload), tensors.target(op, overload.name)
    for number, case in enumerate(c for c in op.cases if c.overload == overload.name):
        layout = ("plain", *tensors.LAYOUTS)[number % (1 + len(tensors.LAYOUTS))]
        args = [tensors.laid_out(a, layout) for a in op.make(case, device, tensors.generator(number, device))]
        given, again = args, copies(args) if layout == "plain" else [tensors.laid_out(a, layout) for a in args]
        expected, found = tensors.outputs(target(*given)), tensors.outputs(call(*again))
        for place, (a, b) in enumerate(zip((*found, *again), (*expected, *given), strict=True)):
            if isinstance(a, torch.Tensor):
                assert tensors.same_bits(a.contiguous(), b.contiguous()), f"{case}, {layout}, {place}"
                assert a.stride() == b.stride(), f"{case}, {layout}, {place}"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("op", "overload"), SERVED, ids=case_id)
def test_plain_calls_need_no_operator(op, overload, dtype, device):
    library, target = _library.load(), tensors.target(op, overload.name)
    key = device.upper()
    call = _direct.direct(torch, Refusing(target), {key: overload.launch(library, key)}, nothing)
    case = next(c for c in op.cases if (c.overload, c.dtype) == (overload.name, dtype) and 0 not in c.shape)
    args = op.make(case, device, tensors.generator(1, device))
    expected = tensors.outputs(target(*copies(args)))
    as_parameters = [
        torch.nn.Parameter(a, requires_grad=False) if isinstance(a, torch.Tensor) else a for a in copies(args)
    ]
    for given in (copies(args), as_parameters):
        assert all(map(tensors.same_bits, tensors.outputs(call(*given)), expected))
    with torch.no_grad():
        wanting = tensors.changed(op, overload.name, copies(args), lambda a: a.requires_grad_())
        assert all(map(tensors.same_bits, tensors.outputs(call(*wanting)), expected))
    with torch.inference_mode():
        assert all(map(tensors.same_bits, tensors.outputs(call(*copies(args))), expected))


FAILS = """
import kernelwright
from kernelwright import ops
from kernelwright.ops import _direct, _register

register, count = _register._register_overload, 0

def failing(*args):
    global count
    count += 1
    if count == 4:
        raise RuntimeError("the fourth overload")
    return register(*args)

_register._register_overload = failing
try:
    ops.register()
    raise SystemExit("registered")
except RuntimeError as error:
    assert str(error) == "the fourth overload"
assert not vars(_direct.calls), vars(_direct.calls)
ops.register()
assert len(vars(_direct.calls)) == len(ops.names())
"""


def test_nothing_can_be_called_that_was_not_registered():
    done = subprocess.run([sys.executable, "-c", FAILS], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_versions_count_what_is_written(device):
    x, residual = torch.randn(3, 8, device=device), torch.randn(3, 8, device=device)
    before = residual._version
    kernelwright.rms_norm(x, None, residual, inplace=True)
    assert residual._version == before + 1
    kept = torch.randn(3, 8, device=device, requires_grad=True)
    product = kept * residual
    kernelwright.rms_norm(x, None, residual, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


# --- what may go wrong on the way ---------------------------------------------------------------


def test_what_a_signal_handler_raises_ends_the_call():
    """torch's DataLoader has such a handler. What was written in place is written once."""

    def handler(*_):
        raise RuntimeError("a worker died")

    library, target = _library.load(), tensors.target(ops.record("rms_norm"), "residual_")
    launch = ops.record("rms_norm").overload("residual_").launch(library, "CPU")

    def interrupted(*args):
        found = launch(*args)
        handler()
        return found

    call = _direct.direct(torch, target, {"CPU": interrupted}, nothing)
    x, residual = torch.ones(3, 8), torch.zeros(3, 8)
    with pytest.raises(RuntimeError, match="a worker died"):
        call(x, residual, None, 1e-6)
    assert torch.equal(residual, x)


@pytest.mark.parametrize(
    ("n", "blocksize"), [(64.0, 64), (64, 64.0), (torch.tensor(64.0), 64), (64 + 0j, 64), (True, 64)]
)
def test_a_wrong_number_does_no_harm_to_later_calls(n, blocksize):
    packed, absmax = kernelwright.quantize_4bit(torch.ones(64, 64))
    x, target = torch.ones(5, 64), torch.ops.kernelwright.matmul_4bit.default
    call = _direct.calls.matmul_4bit.default
    for _ in range(2):
        same_refusal(call, target, (x, packed, absmax, None, n, blocksize, "nf4"))
        assert call(x, packed, absmax, None, 64, 64, "nf4").shape == (5, 64)


def test_a_wrong_shape_does_no_harm():
    packed, absmax = kernelwright.quantize_4bit(torch.ones(64, 64))
    call, target = _direct.calls.dequantize_4bit.default, torch.ops.kernelwright.dequantize_4bit.default
    for shape in ((64, 64.0), (64, True), [torch.tensor(64), 64], (64, "64"), (-64, -64), (), 4096, None):
        same_refusal(call, target, (packed, absmax, shape, 64, "nf4", torch.float32))


def test_missing_and_surplus_arguments():
    for args in ((), (torch.ones(3, 8),), (torch.ones(3, 8), None, 1e-6, None)):
        same_refusal(_direct.calls.rms_norm.default, torch.ops.kernelwright.rms_norm.default, args)


def test_weights_of_layers_need_no_operator():
    """Params4bit is a class of its own, which torch treats as any parameter."""
    packed, absmax = kernelwright.quantize_4bit(torch.ones(64, 64))
    weight = kernelwright.nn.Params4bit(packed, requires_grad=False)
    assert type(weight) is kernelwright.nn.Params4bit
    assert weight.dtype is torch.uint8
    overload, target = ops.record("matmul_4bit").overload("default"), torch.ops.kernelwright.matmul_4bit.default
    call = _direct.direct(torch, Refusing(target), {"CPU": overload.launch(_library.load(), "CPU")}, nothing)
    assert call(torch.ones(2, 64), weight, absmax, None, 64, 64, "nf4").shape == (2, 64)


def test_classes_are_not_kept():
    def used():
        class Named(torch.Tensor):
            pass

        kernelwright.rms_norm(torch.ones(3, 8).as_subclass(Named))
        return weakref.ref(Named)

    named = used()
    gc.collect()
    assert named() is None


# --- what is no plain call ----------------------------------------------------------------------


def test_nothing_is_launched_for_transforms():
    target = tensors.target(ops.record("rms_norm"), "default")
    call, x = _direct.direct(torch, target, {"CPU": Refusing(target)}, nothing), torch.randn(4, 3, 8)
    assert torch.equal(torch.vmap(lambda row: call(row, None, 1e-6))(x), kernelwright.rms_norm(x))


def test_nothing_is_launched_for_batches_of_gradients():
    """torch.autograd.functional and is_grads_batched map backward passes in an older way than torch.func."""
    x, batch = torch.randn(3, 8, requires_grad=True), torch.randn(4, 3, 8)
    target = torch.ops.kernelwright.rms_norm.backward
    call = _direct.direct(torch, target, {"CPU": Refusing(target)}, nothing)

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return kernelwright.rms_norm(x)

        @staticmethod
        def backward(ctx, grad):
            return call(grad, *ctx.saved_tensors, None, None, 1e-6, False)[0]

    (found,) = torch.autograd.grad(Norm.apply(x), x, batch, is_grads_batched=True)
    for one, grad in zip(found, batch, strict=True):
        assert torch.equal(one, torch.autograd.grad(kernelwright.rms_norm(x), x, grad)[0])


def test_gradients_are_recorded(device):
    x = torch.randn(3, 8, device=device, requires_grad=True)
    y = kernelwright.rms_norm(x)
    assert y.requires_grad
    y.sum().backward()
    exact = x.detach().double().requires_grad_()
    torch.nn.functional.rms_norm(exact, (8,), eps=1e-6).sum().backward()
    torch.testing.assert_close(x.grad.double(), exact.grad, rtol=1e-5, atol=1e-5)


def test_views_that_negate(device):
    view = torch._neg_view(torch.randn(3, 8, device=device))
    assert view.is_neg()
    assert view.is_contiguous()
    assert torch.equal(kernelwright.swiglu(view, view), kernelwright.swiglu(view.clone(), view.clone()))


def test_tangents_are_refused():
    import torch.autograd.forward_ad as forward

    with forward.dual_level(), pytest.raises(errors.Unsupported, match="no forward-mode derivative"):
        kernelwright.rms_norm(forward.make_dual(torch.ones(3, 8), torch.ones(3, 8)))


ODD = {
    "sparse": lambda: torch.ones(3, 8).to_sparse(),
    "compressed": lambda: torch.ones(3, 8).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)]),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(3, 8), 1.0, 0, torch.qint8),
    "integers": lambda: torch.ones(3, 8, dtype=torch.int64),
    "complex": lambda: torch.ones(3, 8, dtype=torch.complex64),
    "no dimension": lambda: torch.ones(()),
    "freed": lambda: tensors.freed(3, 8),
    "a list": lambda: [1.0],
    "nothing": lambda: None,
    "a number": lambda: 2.5,
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(("op", "overload"), LAUNCHED, ids=case_id)
def test_what_is_refused_is_refused_alike(op, overload, kind):
    call, target = straight(op, overload), tensors.target(op, overload.name)
    case = next(c for c in op.cases if (c.overload, c.dtype) == (overload.name, "float32") and 0 not in c.shape)
    args = op.make(case, "cpu", tensors.generator(2, "cpu"))
    for place, argument in enumerate(args):
        if isinstance(argument, torch.Tensor):
            same_refusal(call, target, [*args[:place], ODD[kind](), *args[place + 1 :]])


def test_meta_tensors_have_no_values():
    x = torch.empty(3, 8, device="meta")
    assert kernelwright.rms_norm(x).is_meta
    assert kernelwright.swiglu(x, x).is_meta


def test_fake_tensors_out_of_their_mode():
    from torch._subclasses import FakeTensor, FakeTensorMode

    with FakeTensorMode() as mode:
        x = torch.empty(3, 8)
    assert isinstance(kernelwright.rms_norm(x), FakeTensor)
    assert isinstance(kernelwright.rms_norm(mode.from_tensor(torch.ones(2, 8))), FakeTensor)


def test_transforms_say_what_they_say_of_the_operator():
    target = torch.ops.kernelwright.rms_norm.default
    for transform in (
        lambda f: lambda x: torch.func.jvp(f, (x,), (x,)),
        lambda f: torch.func.grad(lambda x: f(x).sum()),
    ):
        same_refusal(transform(kernelwright.rms_norm), transform(target), (torch.ones(3, 8),))
