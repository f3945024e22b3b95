# SPDX-License-Identifier: MIT
"""What the library is given for a tensor, by kernels in C or in Python; memory that is gone, or that is not there."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

import kernelwright
from kernelwright import _library, errors, ops
from kernelwright.ops import _handles
from tests.python import tensors
from tests.python.tensors import torch

pytestmark = pytest.mark.torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.int64)


@pytest.fixture
def library():
    ops.register()
    return _library.load()


def made(draw, device):
    """A tensor that lies oddly: any dimensions, some of size 0 or 1, rows that are part of longer ones, any order."""
    dims = int(torch.randint(0, 5, (), generator=draw))
    sizes = torch.randint(0, 5, (dims,), generator=draw).tolist()
    whole = torch.empty([size + 2 for size in sizes], dtype=DTYPES[dims % len(DTYPES)], device=device)
    for dim, size in enumerate(sizes):
        whole = whole.narrow(dim, int(torch.randint(0, 3, (), generator=draw)), size)
    order = torch.randperm(dims, generator=draw).tolist()
    return whole.permute(order)[..., ::2] if dims and sum(order[:1]) else whole.permute(order)


def told(library, address):
    """What the library takes the tensor at an address for."""
    found = library.structs["kw_tensor"]()
    library.call("kw_read_tensor", address, ctypes.addressof(found))
    numbers = ctypes.POINTER(ctypes.c_int64)
    sizes, strides = (
        ctypes.cast(at, numbers)[: found.dims] if found.dims else [] for at in (found.sizes, found.strides)
    )
    return found.kind, found.data, sizes, strides, found.dims, found.dtype, found.device


def test_a_description_is_what_python_says(library, device):
    describe, draw = _handles.describer(library), torch.Generator().manual_seed(3)
    for _ in range(500):
        tensor = made(draw, device)
        kind, data, sizes, strides, dims, code, place = told(library, describe(tensor))
        assert (data or 0, sizes, strides, dims) == (
            tensor.data_ptr(),
            list(tensor.shape),
            list(tensor.stride()),
            tensor.dim(),
        )
        known = DTYPES.index(tensor.dtype)
        assert (kind, code, place) == (1, known if known < 5 else -1, -1 if device == "cpu" else tensor.get_device())


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "swiglu", "matmul_4bit", "dequantize_4bit"])
def test_kernels_in_python_give_the_same_bits(name, library, device):
    """Those that serve where torch takes none in C. By a description of each tensor."""
    op = ops.record(name)
    described = {o.name: o.bind(library, device.partition(":")[0].upper()) for o in op.overloads}
    generator = torch.Generator(device).manual_seed(5)
    for case in op.cases:
        arguments = op.make(case, device, generator)
        copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        with torch.no_grad():
            expected = tensors.outputs(getattr(getattr(torch.ops.kernelwright, name), case.overload)(*arguments))
            found = tensors.outputs(described[case.overload](*copies))
        for a, b in zip((*found, *copies), (*expected, *arguments), strict=True):
            assert not isinstance(a, torch.Tensor) or tensors.same_bits(a, b), str(case)


FIRST_USE = """
import torch
from torch._subclasses import CrossRefFakeMode as CrossRefMode
from torch._subclasses import FakeTensorMode

import kernelwright
from kernelwright import ops

with {context}:
    ops.register()
    y = kernelwright.rms_norm(torch.ones(2, 8))
x = torch.randn(3, 8)
assert torch.allclose(kernelwright.rms_norm(x), torch.nn.functional.rms_norm(x, (8,), eps=1e-6), atol=1e-6)
"""


@pytest.mark.parametrize(
    "context",
    ["FakeTensorMode()", "torch.device('meta')", "torch.inference_mode()", "CrossRefMode()", "torch.no_grad()"],
)
def test_first_use_within(context):
    """What is tried when a kernel first runs must not be seen by what the program has switched on."""
    program = FIRST_USE.format(context=context)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


NO_MEMORY = [
    (lambda x: kernelwright.rms_norm(x, torch.ones(3)), "rms_norm: weight has shape"),
    (lambda x: kernelwright.layer_norm(x, torch.ones(3)), "layer_norm: weight has shape"),
    (lambda x: kernelwright.swiglu(x, x[..., :3]), "swiglu: up has shape"),
    (lambda x: torch.ops.kernelwright.swiglu.backward(x, x[:3], x[:3]), "swiglu: grad has shape"),
    (
        lambda x: kernelwright.dequantize_4bit(torch.zeros(3, dtype=torch.uint8), x[:1, 0], x.shape),
        "packed has 3 elements",
    ),
]


@pytest.mark.parametrize(("call", "words"), NO_MEMORY)
def test_wrong_arguments_where_there_is_no_memory_for_a_result(call, words):
    x = torch.zeros(()).expand(2**41, 64)  # more bytes than there are addresses
    with pytest.raises(errors.InvalidArgument, match=words):
        call(x)
    if "packed" not in words:  # whose scales have no gradients
        with torch.enable_grad(), pytest.raises(errors.InvalidArgument, match=words):
            call(x.requires_grad_())


def test_no_memory_for_a_result():
    with pytest.raises(RuntimeError, match="allocate"):
        kernelwright.rms_norm(torch.zeros(()).expand(2**41, 64))


def test_views_of_freed_memory(library, device):
    """Their address is their offset: what FSDP leaves of a parameter whose flat tensor it freed."""
    flat = torch.randn(1024, device=device)
    view, x = flat[64:128], torch.randn(3, 64, device=device)
    flat.untyped_storage().resize_(0)
    for call in (
        lambda: kernelwright.rms_norm(x, view),
        lambda: kernelwright.layer_norm(x, None, view),
        lambda: kernelwright.swiglu(x[0], view),
        lambda: kernelwright.rms_norm(view),
    ):
        with pytest.raises(errors.InvalidArgument, match="no memory"):
            call()
    describe = _handles.describer(library)
    assert told(library, describe(view))[1] is None


@pytest.mark.parametrize(("apart", "offset"), [(1, 0), (2, 0), (1, 16), (2, 16)])
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_freed_memory_is_not_copied(dtype, apart, offset, device):
    """What the library does not take is copied, and float64 left to torch: both would read what is not there."""

    def gone(*shape, dtype=dtype):
        return tensors.freed(*shape, dtype=dtype, apart=apart, offset=offset, device=device)

    def here(*shape):
        return torch.ones(*shape, dtype=dtype, device=device)

    norm, gated = torch.ops.kernelwright.layer_norm, torch.ops.kernelwright.swiglu
    packed, absmax = kernelwright.quantize_4bit(torch.ones(64, 64, device=device))
    _, nested = kernelwright.quantize_4bit(torch.ones(64, 64, device=device), double_quant=True)
    bare = gone(nested.codes.numel(), dtype=torch.uint8)
    calls = (
        lambda: kernelwright.rms_norm(gone(4, 8)),
        lambda: kernelwright.rms_norm(here(4, 8), gone(8)),
        lambda: kernelwright.rms_norm(gone(4, 8), None, gone(4, 8), inplace=True),
        lambda: kernelwright.rms_norm(here(4, 8), None, gone(4, 8), inplace=True),
        lambda: kernelwright.rms_norm(gone(4, 8), None, here(4, 8), inplace=True),
        lambda: kernelwright.layer_norm(here(4, 8), here(8), gone(8), here(4, 8), inplace=True),
        lambda: norm.backward(gone(4, 8), here(4, 8), None, None, None, 1e-5, False, False),
        lambda: norm.backward(here(4, 8), gone(4, 8), None, None, None, 1e-5, False, False),
        lambda: norm.backward(here(4, 8), here(4, 8), gone(8), None, None, 1e-5, False, False),
        lambda: norm.backward(here(4, 8), here(4, 8), None, None, gone(4, 8), 1e-5, False, False),
        lambda: kernelwright.swiglu(gone(4, 8)),
        lambda: kernelwright.swiglu(here(4, 8), gone(4, 8)),
        lambda: gated.backward(gone(4, 8), here(4, 8), here(4, 8)),
        lambda: gated.packed_backward(gone(4, 4), here(4, 8)),
        lambda: kernelwright.quantize_4bit(gone(4, 64)),
        lambda: torch.ops.kernelwright.quantize_4bit.absmax(gone(64, dtype=torch.float32), nested.offset, nested.map),
        lambda: kernelwright.matmul_4bit(gone(3, 64), packed, absmax, 64),
        lambda: kernelwright.matmul_4bit(gone(300, 64), packed, absmax, 64),  # so many rows torch multiplies
        lambda: kernelwright.matmul_4bit(here(3, 64), gone(2048, dtype=torch.uint8), absmax, 64),
        lambda: kernelwright.matmul_4bit(here(3, 64), packed, gone(64, dtype=torch.float32), 64),
        lambda: kernelwright.matmul_4bit(here(3, 64), packed, absmax, 64, bias=gone(64)),
        lambda: kernelwright.matmul_4bit(here(3, 64), packed, nested._replace(codes=bare), 64),
        lambda: kernelwright.dequantize_4bit(gone(2048, dtype=torch.uint8), absmax, (64, 64), dtype=dtype),
    )
    for call in calls:
        with pytest.raises(errors.InvalidArgument, match="no memory"):
            call()


def test_freed_arguments_of_an_empty_batch(device):
    packed, absmax = kernelwright.quantize_4bit(torch.randn(8, 64, device=device))
    weight = torch.ones(64, device=device)
    for tensor in (packed, absmax, weight):
        tensor.untyped_storage().resize_(0)
    x = torch.empty(0, 64, device=device)
    assert kernelwright.matmul_4bit(x, packed, absmax, 8).shape == (0, 8)
    assert kernelwright.rms_norm(x, weight).shape == x.shape


def test_nothing_lies_anywhere(device):
    """Strides of what has no element say nothing."""
    for shape, strides in (((0, 4, 8), (2**61, 2**62, 1)), ((8, 0), (2**60, 1)), ((0, 8), (1, 5))):
        x = torch.empty_strided(shape, strides, device=device)
        assert kernelwright.swiglu(x, x).shape == x.shape
        if x.shape[-1]:
            assert kernelwright.rms_norm(x).shape == x.shape


def test_a_missing_half(device):
    """The library takes swiglu's gate for both halves where there is no other."""
    with pytest.raises(errors.InvalidArgument, match="up is None"):
        torch.ops.kernelwright.swiglu.default(torch.zeros(4, 0, device=device), None)
