# SPDX-License-Identifier: MIT
"""kernelwright under an installed bitsandbytes: the same numbers, from its own functions and modules."""

from __future__ import annotations

import copy
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]

TYPES = ["nf4", "fp4"]


def with_type(state, dtype):
    """A quantized weight's state, for values of another type."""
    other = copy.copy(state)
    other.dtype = dtype
    return other


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("quant_type", TYPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_its_functions(bnb, under, seed, dtype, quant_type, double):
    weight, x, bias = (torch.randn(*s).to(dtype) for s in ((96, 128), (3, 128), (96,)))
    packed, state = bnb.functional.quantize_4bit(weight, quant_type=quant_type, compress_statistics=double)
    wide = bnb.functional.dequantize_4bit(packed, state)
    under.enable()
    packed_here, state_here = bnb.functional.quantize_4bit(weight, quant_type=quant_type, compress_statistics=double)
    assert packed_here.shape == packed.shape
    assert torch.equal(state_here.absmax, state.absmax)
    here = bnb.functional.dequantize_4bit(packed, state)
    if dtype == torch.float16 and here.device.type == "cpu":
        # The CPU code within its CUDA library rounds halves away from zero, its library for CPUs to even.
        from tests.ops.four_bit.bitsandbytes_4bit import halves_away

        product = bnb.functional.dequantize_4bit(packed, with_type(state, torch.float32))
        assert torch.equal(here, product.half())
        assert torch.where(here == wide, here, halves_away(product)).equal(wide)
    else:
        assert torch.equal(here, wide)
    if quant_type == "nf4":
        assert torch.equal(packed_here, packed)
    else:
        # FP4 has two codes of 0, and elements that lie between two values to the bit; its CPU path takes others there
        # than its CUDA library. Whatever was taken is as near, by the scales that both decided with.
        _, plain = bnb.functional.quantize_4bit(weight, quant_type=quant_type)
        both = (bnb.functional.dequantize_4bit(codes, plain) for codes in (packed_here, packed))
        near, far = ((t - weight).float().abs() for t in both)
        torch.testing.assert_close(near, far, rtol=0, atol=2 * torch.finfo(dtype).eps * float(weight.abs().max()))
    y = bnb.matmul_4bit(x, packed, state, bias=bias)
    assert y.dtype is dtype
    whole = [t.double() for t in (x, wide, bias)]
    exact, sizes = (torch.nn.functional.linear(*ts) for ts in (whole, [t.abs() for t in whole]))
    # The weight is not rounded to `dtype` here, as it is in `wide`.
    assert ((y.double() - exact).abs() <= torch.finfo(dtype).eps * (exact.abs() + sizes)).all()
    out = torch.empty_like(wide)
    bnb.functional.dequantize_4bit(packed, state, out=out)
    assert torch.equal(out, here)


@pytest.mark.parametrize("quant_type", TYPES)
def test_blocks_across_rows(bnb, under, seed, quant_type):
    """Against the definition: 0.50.2's own CPU path is wrong where rows are no whole number of blocks."""
    weight, x = torch.randn(96, 160), torch.randn(3, 160)
    packed, state = bnb.functional.quantize_4bit(weight, quant_type=quant_type)
    codes = torch.stack((packed.view(-1) >> 4, packed.view(-1) & 15), 1).view(-1).long()
    wide = (state.code[codes] * state.absmax.repeat_interleave(64)).view(96, 160)
    under.enable()
    assert torch.equal(bnb.functional.dequantize_4bit(packed, state), wide)
    torch.testing.assert_close(bnb.matmul_4bit(x, packed, state), x @ wide.t(), rtol=1e-5, atol=1e-4)


def test_whose_kernel_runs(bnb, under, seed, device):
    """Counted, so that a registration that torch ignores cannot pass for one that works."""
    from kernelwright.integrations import _bitsandbytes_kernels as kernels

    calls = []

    def noted(name, kernel):
        @functools.wraps(kernel)  # enable() compares its arguments with the operator's
        def note(*args):
            calls.append(name)
            return kernel(*args)

        return note

    recorded = {name: noted(name, kernel) for name, kernel in kernels.KERNELS.items()}
    layer = bnb.nn.LinearNF4(64, 64).to(device)
    x = torch.randn(2, 64, requires_grad=True)

    def by_its_operators(x):
        return bnb.autograd._functions.MatMul4Bit.apply(x, layer.weight, None, layer.bias, layer.weight.quant_state)

    by_its_operators(x).sum().backward()
    assert not calls
    before = dict(kernels.KERNELS)
    try:
        kernels.KERNELS.update(recorded)
        under.enable()
    finally:
        kernels.KERNELS.update(before)
    by_its_operators(x).sum().backward()
    bnb.nn.LinearNF4(64, 64).to(device)
    assert calls == ["gemm_4bit", "dequantize_4bit", "quantize_4bit"]
    calls.clear()
    with torch.inference_mode():
        by_its_operators(x.detach())
    assert calls == ["gemm_4bit"]
    calls.clear()
    under.disable()
    by_its_operators(x).sum().backward()
    assert not calls
    assert not under.enabled()


class Seen(TorchDispatchMode):
    """The operators that torch dispatches."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("double", [False, True])
def test_a_step_of_a_layer_dispatches_no_more_than_its_products(bnb, under, seed, device, double):
    """Between kernels Python's time counts: one product forward, the weight and one product backward, no more."""
    layer = bnb.nn.Linear4bit(64, 96, bias=False, compute_dtype=torch.bfloat16, compress_statistics=double)
    layer = layer.to(device)
    x = torch.randn(2, 3, 64).bfloat16().requires_grad_()
    grad = torch.randn(2, 3, 96).bfloat16()
    expected = torch.autograd.grad(layer(x), x, grad)[0]
    plain = layer(x).detach()
    under.enable()
    with Seen() as seen:
        y = layer(x)
        forward = len(seen.names)
        found = torch.autograd.grad(y, x, grad)[0]
    products = [name for name in seen.names if not name.startswith("aten::") or name.endswith(("mm", "matmul"))]
    assert products[0] == "kernelwright::matmul_4bit"
    assert products[1] == "kernelwright::dequantize_4bit"
    assert len(products) == 3
    views = ("view", "detach", "_unsafe_view", "t", "transpose", "reshape", "expand")
    assert {name.removeprefix("aten::") for name in seen.names} - set(views) <= {*products, "mm", "bmm"}
    assert forward <= 3
    torch.testing.assert_close(found, expected, rtol=2**-6, atol=2**-6)
    torch.testing.assert_close(y, plain, rtol=2**-6, atol=2**-6)


def test_what_its_function_is_given_besides(bnb, under, seed, device):
    """`out`, no rows, a bias with gradients, a weight seen as floats, a checkpoint's offset of another type."""
    weight, bias = torch.randn(96, 128), torch.randn(96, requires_grad=True)
    packed, state = bnb.functional.quantize_4bit(weight, quant_type="nf4", compress_statistics=True)
    wide = bnb.functional.dequantize_4bit(packed, state)
    x = torch.randn(2, 3, 128)
    under.enable()
    y = bnb.matmul_4bit(x, packed, state, bias=bias)
    torch.testing.assert_close(y, x @ wide.t() + bias, rtol=1e-4, atol=1e-4)
    grad = torch.randn(2, 3, 96)
    torch.testing.assert_close(torch.autograd.grad(y, bias, grad)[0], grad.sum((0, 1)), rtol=1e-5, atol=1e-5)
    out = torch.empty(2, 3, 96)
    assert bnb.matmul_4bit(x, packed, state, out=out) is out
    torch.testing.assert_close(out, x @ wide.t(), rtol=1e-4, atol=1e-4)
    assert bnb.matmul_4bit(x[:0], packed, state).shape == (0, 3, 96)
    as_floats = packed.view(-1).view(torch.float32).view(-1, 1)
    torch.testing.assert_close(bnb.matmul_4bit(x, as_floats, state), out)
    state.offset = state.offset.bfloat16().to(torch.float64)
    wide = bnb.functional.dequantize_4bit(packed, state).float()
    torch.testing.assert_close(bnb.matmul_4bit(x, packed, state), x @ wide.t(), rtol=1e-4, atol=1e-4)


def test_again_and_again(bnb, under, seed):
    packed, state = bnb.functional.quantize_4bit(torch.randn(64, 64), quant_type="nf4")
    x = torch.randn(1, 64)
    theirs = bnb.matmul_4bit(x, packed, state)
    for _ in range(3):
        under.enable()
        under.enable()
        torch.testing.assert_close(bnb.matmul_4bit(x, packed, state), theirs, rtol=1e-4, atol=1e-4)
        under.disable()
        under.disable()
        assert torch.equal(bnb.matmul_4bit(x, packed, state), theirs)


def test_codes_stay_in_order(bnb, under, seed, device):
    """Its layers would reorder theirs on a CPU with AVX512-BF16, in the first forward without gradients."""
    layer = bnb.nn.LinearNF4(64, 64, bias=False, compute_dtype=torch.bfloat16).to(device).eval()
    before = layer.weight.data.clone()
    under.enable()
    with torch.no_grad():
        y = layer(torch.eye(64, dtype=torch.bfloat16))
    assert torch.equal(layer.weight.data, before)
    wide = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    torch.testing.assert_close(y.t(), wide.bfloat16(), rtol=2**-7, atol=0)


@pytest.mark.parametrize("storage", [torch.bfloat16, torch.float32])
def test_other_storage(bnb, under, seed, storage, device):
    layer = bnb.nn.LinearNF4(64, 64, quant_storage=storage).to(device).train()
    x = torch.randn(2, 64, requires_grad=True)
    y = layer(x)
    under.enable()
    torch.testing.assert_close(layer(x), y, rtol=1e-4, atol=1e-4)
    assert bnb.nn.LinearNF4(64, 64, quant_storage=storage).to(device).weight.dtype is storage


def test_compiled(bnb, under, seed, device):
    under.enable()
    layer = bnb.nn.LinearNF4(64, 64, compute_dtype=torch.float32).to(device).train()
    x = torch.randn(2, 64, requires_grad=True)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(layer, backend="aot_eager")(x), layer(x), rtol=1e-5, atol=1e-5)


def test_wrong_shapes_are_said(bnb, under, seed):
    from kernelwright import errors

    packed, state = bnb.functional.quantize_4bit(torch.randn(64, 96), quant_type="nf4")
    under.enable()
    with pytest.raises(errors.InvalidArgument, match="its last dimension must be 96"):
        bnb.matmul_4bit(torch.randn(2, 32), packed, state)
    with pytest.raises(errors.InvalidArgument, match="packed has 3008 elements, but must have 3072"):
        bnb.matmul_4bit(torch.randn(2, 96), packed[:-64], state)


def test_codes_and_scales_of_its_own(bnb, device):
    """Counted by the program: scales and values to the bit, codes but for those within two ulp of a decision point."""
    program = Path(__file__).parents[1] / "ops" / "four_bit" / "bitsandbytes_4bit.py"
    done = subprocess.run(
        [sys.executable, str(program), "compare", device], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(", 0 of them away from decision points") == 6, done.stdout
    assert "none of ours farther off" in done.stdout


VARIABLE = """
import bitsandbytes
from kernelwright.integrations import bitsandbytes as under
print(under.enabled())
"""


@pytest.mark.parametrize(("value", "disabled", "said"), [("1", "", "True"), ("", "", "False"), ("1", "1", "False")])
def test_the_variable(bnb, value, disabled, said):
    environment = os.environ | {"KERNELWRIGHT_BITSANDBYTES": value, "KERNELWRIGHT_DISABLE": disabled}
    done = subprocess.run(
        [sys.executable, "-c", VARIABLE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == said, done.stderr


OTHER_RELEASE = """
import sys, warnings
import torch
if sys.argv[1] == "older":
    # The operator that a release before 0.50 lacks, or one with another argument in it.
    define = torch.library.define
    def without(name, schema, *args, **kwargs):
        if name == "bitsandbytes::gemm_4bit":
            schema = schema.replace(", int blocksize", ", int blocksize, int more")
        return define(name, schema, *args, **kwargs)
    torch.library.define = without
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import bitsandbytes
from kernelwright.integrations import bitsandbytes as under
print(under.enabled(), [str(one.message) for one in said if "kernels, although" in str(one.message)])
packed, state = bitsandbytes.functional.quantize_4bit(torch.randn(64, 64))
assert bitsandbytes.functional.dequantize_4bit(packed, state).shape == (64, 64)
"""


@pytest.mark.parametrize(
    ("value", "release", "said"),
    [("1", "older", "no operator gemm_4bit, or with other arguments"), ("2", "this", "is neither yes")],
)
@pytest.mark.parametrize("strict", [False, True])
def test_the_variable_never_ends_its_import(bnb, value, release, said, strict):
    """Another release, a value that means nothing, warnings as errors: bitsandbytes works on, and it is said why."""
    arguments = ["-W", "error::RuntimeWarning"] * strict
    done = subprocess.run(
        [sys.executable, *arguments, "-c", OTHER_RELEASE, release],
        env=os.environ | {"KERNELWRIGHT_BITSANDBYTES": value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("False"), done.stdout
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("double", [False, True])
def test_scales_of_another_type(bnb, under, seed, dtype, double, device):
    """A program that makes everything of its default type converts scales too; they are converted back."""
    weight, x = torch.randn(96, 128), torch.randn(3, 128)
    packed, state = bnb.functional.quantize_4bit(weight, quant_type="nf4", compress_statistics=double)
    where = state.state2 if double else state
    where.absmax = where.absmax.to(dtype)
    if double:
        where.code, state.offset = where.code.to(dtype), state.offset.to(dtype)
    scales = where.absmax.float()
    if double:
        scales = where.code.float()[state.absmax.int()] * scales.repeat_interleave(256)[: state.absmax.numel()]
        scales = scales + state.offset.float()
    codes = torch.stack((packed.view(-1) >> 4, packed.view(-1) & 15), 1).view(-1).long()
    wide = (state.code[codes] * scales.repeat_interleave(64)).view(96, 128)
    under.enable()
    torch.testing.assert_close(bnb.matmul_4bit(x, packed, state), x @ wide.t(), rtol=1e-5, atol=1e-4)
    op = torch.ops.bitsandbytes.gemm_4bit.default
    nested = (None, state.absmax, where.code, state.offset) if double else ()
    y = op(x, packed, [96, 128], where.absmax, 64, "nf4", *nested)
    torch.testing.assert_close(y, x @ wide.t(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("quant_type", TYPES)
def test_gemv(bnb, under, seed, quant_type, device):
    """Its function for one row, with the values of the type as a tensor instead of its name."""
    weight, x = torch.randn(96, 128), torch.randn(1, 128)
    packed, state = bnb.functional.quantize_4bit(weight, quant_type=quant_type, compress_statistics=True)
    wide = bnb.functional.dequantize_4bit(packed, state)
    if device == "cpu" and bnb.functional.has_avx512bf16():
        pytest.skip("its layers reorder their codes on this CPU, and its kernel for those stays")
    under.enable()
    for _ in range(2):
        torch.testing.assert_close(bnb.functional.gemv_4bit(x, packed, state=state), x @ wide.t(), rtol=1e-5, atol=1e-4)
    out = torch.empty(1, 96)
    assert bnb.functional.gemv_4bit(x, packed, out=out, state=state) is out
    torch.testing.assert_close(out, x @ wide.t(), rtol=1e-5, atol=1e-4)


def test_its_order_where_that_is_faster(bnb, under, seed, monkeypatch):
    """Decided by measurement before the first layer is reordered; products of such a layer are bitsandbytes' own."""
    from kernelwright.integrations import _bitsandbytes_order as order

    if not bnb.functional.has_avx512bf16():
        pytest.skip("bitsandbytes reorders codes on CPUs with AVX512-BF16 alone")
    monkeypatch.setattr(order, "reordered_is_faster", lambda _: True)
    layer = bnb.nn.LinearNF4(64, 64, bias=False, compute_dtype=torch.bfloat16)
    layer.weight.data = layer.weight.data.bfloat16()
    layer = layer.to("cpu").eval()
    wide = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    under.enable()
    with torch.no_grad():
        y = layer(torch.eye(64, dtype=torch.bfloat16))
    assert layer.weight.quant_state.packing_format_for_cpu
    torch.testing.assert_close(y.t(), wide, rtol=2**-6, atol=2**-6)
    monkeypatch.undo()
    assert order._ratio(4, bnb.functional._convert_weight_packed_for_cpu) > 0
