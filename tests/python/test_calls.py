# SPDX-License-Identifier: MIT
"""`kernelwright.<op>` and `torch.ops.kernelwright.<op>` are one operator, with kernels in C: the same results, the same
refusals, and whatever torch has for operators does the same to both."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import kernelwright
from kernelwright import _library, errors, ops
from kernelwright.ops import _calls, _schema
from tests.python import tensors
from tests.python.tensors import OVERLOADS, case_id, torch

pytestmark = pytest.mark.torch


def way(op, overload):
    """`_calls.calls`' function of an overload."""
    ops.register()
    return getattr(getattr(_calls.calls, op.name), overload.name)


def copies(args):
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in args]


def same_refusal(call, target, args):
    """Both raise, and say the same, or neither does. torch's own functions for kernels in C have one class alone."""
    said, kinds = [], []
    for function in (call, target):
        try:
            said.append([tensor.tolist() for tensor in tensors.outputs(function(*args))])
        except Exception as error:  # noqa: BLE001 - whatever torch says
            said.append(str(error).partition("\n")[0])
            kinds.append(type(error))
    assert said[0] == said[1]
    assert not kinds or kinds[1] in (kinds[0], RuntimeError), kinds


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_schemas_are_read_as_torch_reads_them(op, overload):
    read, told = _schema.parse(overload.schema), tensors.target(op, overload.name)._schema
    assert len(read.arguments) == len(told.arguments)
    assert read.results == len(told.returns)
    for mine, theirs in zip(read.arguments, told.arguments, strict=True):
        written = theirs.alias_info is not None and theirs.alias_info.is_write
        optional = isinstance(theirs.type, torch.OptionalType)
        assert (mine.name, mine.written, mine.optional) == (theirs.name, written, optional)
        assert mine.default == theirs.default_value
        assert (mine.type == "Tensor") == ("Tensor" in str(theirs.type))


@pytest.fixture(scope="module")
def shim():
    """Skips where this torch lacks the functions that kernels in C need."""
    ops.register()
    library = _library.load()
    assert library.functions["kw_torch_implement"](b"no such operator", b"()")
    words = library.functions["kw_last_error"]()
    if b"a newer torch has" in words:
        pytest.skip(words.decode())


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_every_operator_has_kernels_in_c(op, overload, shim):
    """A schema that differs from the record's would be left to Python, as would a new operator that nobody thought of."""
    found = hasattr(getattr(torch.ops._kernelwright, op.name, None), overload.name)
    if overload.in_python:
        assert not found, "the record says why there is none (in_python): take that out"
    assert found or overload.in_python, (
        f"{op.qualified(overload)} has no kernel in csrc/ops/<family>/torch with the schema of its record: write it "
        "(csrc/torch/operator.h), or say in the record why it has none (in_python)"
    )


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_same_bits_both_ways(op, overload, device, whole):
    call, target = way(op, overload), tensors.target(op, overload.name)
    cases = [c for c in op.cases if c.overload == overload.name]
    for number, case in enumerate(cases if whole else cases[:: 1 + len(cases) // 24]):
        layout = ("plain", *tensors.LAYOUTS)[number % (1 + len(tensors.LAYOUTS))]
        args = [tensors.laid_out(a, layout) for a in op.make(case, device, tensors.generator(number, device))]
        given, again = args, copies(args) if layout == "plain" else [tensors.laid_out(a, layout) for a in args]
        with torch.inference_mode(number % 2 == 1):
            if number % 2 == 1:
                given, again = copies(given), copies(again)
            expected, found = tensors.outputs(target(*given)), tensors.outputs(call(*again))
        for place, (a, b) in enumerate(zip((*found, *again), (*expected, *given), strict=True)):
            if isinstance(a, torch.Tensor):
                assert tensors.same_bits(a.contiguous(), b.contiguous()), f"{case}, {layout}, {place}"
                assert a.stride() == b.stride(), f"{case}, {layout}, {place}"


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
@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_what_is_refused_is_refused_alike(op, overload, kind):
    call, target = way(op, overload), tensors.target(op, overload.name)
    case = next(c for c in op.cases if (c.overload, c.dtype) == (overload.name, "float32") and 0 not in c.shape)
    args = op.make(case, "cpu", tensors.generator(2, "cpu"))
    for place, argument in enumerate(args):
        if isinstance(argument, torch.Tensor):
            odd = [*args[:place], ODD[kind](), *args[place + 1 :]]
            if not tensors.written(op, overload.name):
                same_refusal(call, target, odd)
            with torch.inference_mode():
                same_refusal(call, target, copies(odd) if kind == "integers" else odd)


def test_ten_thousand_refusals_leak_nothing():
    """A tensor of 128 KiB that was not freed in each would be 1.2 GB."""
    program = Path(__file__).with_name("refusals_program.py").read_text(encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_refusal_keeps_no_frames():
    class Named(torch.Tensor):
        pass

    x = torch.ones(3, 8).as_subclass(Named)
    kept = weakref.ref(x)
    with pytest.raises(errors.InvalidArgument):
        kernelwright.rms_norm(x, torch.ones(3))
    del x
    gc.collect()
    assert kept() is None


def test_versions_count_what_is_written(device):
    x, residual = torch.randn(3, 8, device=device), torch.randn(3, 8, device=device)
    for call in (
        lambda: kernelwright.rms_norm(x, None, residual, inplace=True),
        lambda: torch.ops.kernelwright.rms_norm.residual_(x, residual),
    ):
        before = residual._version
        call()
        assert residual._version == before + 1
        kept = torch.randn(3, 8, device=device, requires_grad=True)
        product = kept * residual
        call()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()


@pytest.mark.parametrize(
    ("n", "blocksize"), [(64.0, 64), (64, 64.0), (torch.tensor(64.0), 64), (64 + 0j, 64), (True, 64), (2**62, 64)]
)
def test_a_wrong_number_does_no_harm_to_later_calls(n, blocksize):
    packed, absmax = kernelwright.quantize_4bit(torch.ones(64, 64))
    x, call = torch.ones(5, 64), way(ops.record("matmul_4bit"), ops.record("matmul_4bit").overload("default"))
    for _ in range(2):
        same_refusal(call, torch.ops.kernelwright.matmul_4bit.default, (x, packed, absmax, None, n, blocksize, "nf4"))
        assert call(x, packed, absmax, None, 64, 64, "nf4").shape == (5, 64)


def test_a_wrong_shape_does_no_harm():
    packed, absmax = kernelwright.quantize_4bit(torch.ones(64, 64))
    call, target = _calls.calls.dequantize_4bit.default, torch.ops.kernelwright.dequantize_4bit.default
    for shape in ((64, 64.0), (64, True), [torch.tensor(64), 64], (64, "64"), (-64, -64), (), 4096, None, (1,) * 40):
        same_refusal(call, target, (packed, absmax, shape, 64, "nf4", torch.float32))


def test_missing_and_surplus_arguments():
    for args in ((), (torch.ones(3, 8),), (torch.ones(3, 8), None, 1e-6, None)):
        same_refusal(_calls.calls.rms_norm.default, torch.ops.kernelwright.rms_norm.default, args)


@pytest.mark.skipif(not hasattr(torch, "_lazy_clone"), reason="this torch puts off no copies")
def test_reading_makes_no_copy_that_was_put_off():
    x = torch.randn(3, 8)
    late = torch._lazy_clone(x)
    expected = kernelwright.rms_norm(x.clone())
    if not torch._C._is_cow_tensor(late):
        pytest.skip("this torch says of no tensor that its copy was put off")
    assert torch.equal(kernelwright.rms_norm(late), expected)
    assert torch._C._is_cow_tensor(late)


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_what_lies_at_an_odd_address_is_copied(op, overload):
    """Every tensor that is only read, as a part of a buffer of bytes that begins at an odd offset."""
    written = set(_schema.parse(overload.schema).written)

    def odd(value):
        memory = bytearray(value.numel() * value.element_size() + 1)
        return torch.frombuffer(memory, dtype=value.dtype, count=value.numel(), offset=1).view(value.shape).copy_(value)

    args = op.make(op.cases_for("small", overload.name)[0], "cpu", tensors.generator(4, "cpu"))
    moved = [
        odd(a) if isinstance(a, torch.Tensor) and a.numel() and place not in written else a
        for place, a in enumerate(copies(args))
    ]
    with torch.no_grad():
        expected, found = (tensors.outputs(way(op, overload)(*given)) for given in (args, moved))
    for a, b in zip((*found, *moved), (*expected, *args), strict=True):
        assert not isinstance(a, torch.Tensor) or torch.equal(a, b)


def test_views_that_negate(device):
    view = torch._neg_view(torch.randn(3, 8, device=device))
    assert view.is_neg()
    assert torch.equal(kernelwright.swiglu(view, view), kernelwright.swiglu(view.clone(), view.clone()))


def test_a_subclass_gets_what_torch_makes_of_results():
    class Named(torch.Tensor):
        pass

    assert type(kernelwright.rms_norm(torch.ones(3, 8).as_subclass(Named))) is Named
