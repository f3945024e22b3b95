# SPDX-License-Identifier: MIT
"""The 4-bit operators: beside what bitsandbytes gave, at the edges of their arguments, and what they refuse."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest

import kernelwright
from kernelwright import errors, ops
from kernelwright.ops.four_bit import _reference as reference
from kernelwright.ops.four_bit import _shared as four_bit
from kernelwright.ops.four_bit import matmul_4bit
from kernelwright_toolchain.device.memory import available
from tests.python import tensors
from tests.python.support import run
from tests.python.tensors import generator, same_bits, torch

pytestmark = pytest.mark.torch

RECORDED = json.loads((Path(__file__).parent / "bitsandbytes_4bit.json").read_text(encoding="utf-8"))
KINDS = [(kind, size) for kind in four_bit.VALUES for size in (32, 64, 4096)]


def read(bits, dtype):
    return torch.frombuffer(bytearray.fromhex(bits), dtype=getattr(torch, dtype))


def pairs(packed):
    return torch.stack((packed >> 4, packed & 15), 1).view(-1)


def with_one_zero(codes, quant_type):
    """FP4 has two; bitsandbytes' CPU path, which made the record, takes them the other way round than its CUDA library."""
    return torch.where(codes == 8, 0, codes) if quant_type == "fp4" else codes


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda c: f"{c['quant_type']}-{c['dtype']}-{c['blocksize']}")
def test_what_bitsandbytes_gave(case, device):
    """Of its 0.50.2, on random numbers; tests/ops/four_bit/bitsandbytes_4bit.py made the record and compares many more."""
    kind, size, dtype = case["quant_type"], case["blocksize"], case["dtype"]
    x, held = read(case["x"], dtype).to(device), read(case["packed"], "uint8").to(device)
    packed, absmax = kernelwright.quantize_4bit(x, size, kind)
    assert torch.equal(with_one_zero(pairs(packed), kind), with_one_zero(pairs(held), kind))
    assert same_bits(absmax.cpu(), read(case["absmax"], "float32"))
    back = kernelwright.dequantize_4bit(held, absmax, x.shape, size, kind, x.dtype)
    assert torch.equal(back.cpu(), read(case["values"], dtype))


def test_map_of_the_scales():
    assert same_bits(four_bit.dynamic_map(), read(RECORDED["map"], "float32"))


def test_a_scale_between_two_codes_gets_the_even_one(device):
    """Exactly between: of a map of even steps and a block whose largest scale is 1, nothing is rounded on the way."""
    table = torch.arange(-127, 129, device=device) / 128
    middles = (table[:-1] + table[1:]) / 2
    scales = torch.cat([middles, torch.ones(1, device=device)])
    number = torch.arange(255)
    expected = [*(number + number % 2).tolist(), 255]
    for call in (reference.quantize_absmax, tensors.target(ops.record("quantize_4bit"), "absmax")):
        codes, largest = call(scales, torch.zeros((), device=device), table)
        assert codes.tolist() == expected
        assert largest.tolist() == [1.0]


def test_cpu_codes_are_the_references():
    """A GPU may take another code where the rounding of a reciprocal decides; here nothing may differ."""
    for number, (kind, size) in enumerate(KINDS):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            x = torch.randn(40_000, generator=generator(number, "cpu")).to(dtype)
            for found, expected in zip(
                kernelwright.quantize_4bit(x, size, kind), reference.quantize(x, size, kind), strict=True
            ):
                assert same_bits(found, expected), f"{kind}, {size}, {dtype}"


@pytest.mark.parametrize("quant_type", four_bit.VALUES)
def test_codes_at_decision_points(quant_type):
    """At a bound the lower code, just above it the next: of blocks whose scale is 1, where nothing is rounded."""
    bounds = torch.tensor(four_bit.BOUNDS[quant_type])
    points = bounds if quant_type == "nf4" else torch.cat((bounds, -bounds))
    for direction in (-torch.inf, 0, torch.inf):
        values = points if direction == 0 else torch.nextafter(points, torch.tensor(direction))
        x = torch.cat((torch.ones(1), values, torch.zeros(31 - len(values))))
        found, absmax = kernelwright.quantize_4bit(x, 32, quant_type)
        assert absmax.tolist() == [1.0]
        sizes = values if quant_type == "nf4" else values.abs()
        place = (sizes.unsqueeze(1) > bounds).sum(1)
        expected = place if quant_type == "nf4" else torch.tensor(four_bit.FP4_CODES)[place] + 8 * (values < 0)
        assert pairs(found)[1 : 1 + len(values)].tolist() == expected.tolist()


@pytest.mark.parametrize(("quant_type", "blocksize"), KINDS)
def test_there_and_back(quant_type, blocksize, seed, device):
    """No element is farther off than half the widest gap between two values, times its block's scale."""
    x = torch.randn(3, 5000, generator=generator(seed, device), device=device)
    values = sorted(four_bit.VALUES[quant_type])
    gap = max(b - a for a, b in itertools.pairwise(values)) / 2 + 1e-6
    for double_quant in (False, True):
        packed, absmax = kernelwright.quantize_4bit(x, blocksize, quant_type, double_quant=double_quant)
        back = kernelwright.dequantize_4bit(packed, absmax, x.shape, blocksize, quant_type)
        scales = kernelwright.quantize_4bit(x, blocksize, quant_type)[1]
        each = scales.repeat_interleave(blocksize)[: x.numel()].view_as(x)
        lost = 0.02 * scales.max() if double_quant else 0.0  # the scales' own rounding
        assert ((back - x).abs() <= gap * each + lost).all()


def test_blocks_without_a_scale(device):
    """Zeros stay zeros; a NaN is not lost: its whole block is NaN; infinity gives no finite number away from zero."""
    x = torch.randn(5, 64, device=device)
    x[1], x[2, 7], x[3, 9] = 0, torch.nan, torch.inf
    for quant_type in four_bit.VALUES:
        packed, absmax = kernelwright.quantize_4bit(x, 64, quant_type)
        back = kernelwright.dequantize_4bit(packed, absmax, x.shape, 64, quant_type)
        assert absmax[1] == 0
        assert (back[1] == 0).all()
        assert back[2].isnan().all()
        assert absmax[3] == torch.inf
        assert not back[3, 9].isfinite()
        assert back[[0, 4]].isfinite().all()
        # One for all: the mean of the scales is taken from each of them.
        packed, nested = kernelwright.quantize_4bit(x, 64, quant_type, double_quant=True)
        assert kernelwright.dequantize_4bit(packed, nested, x.shape, 64, quant_type).isnan().all()
        packed, nested = kernelwright.quantize_4bit(x[1:2].expand(5, 64), 64, quant_type, double_quant=True)
        assert (kernelwright.dequantize_4bit(packed, nested, x.shape, 64, quant_type) == 0).all()


REFUSED = {
    "packed has 60 elements, but must have 64": {"packed": 60},
    "packed has dtype torch.float32": {"packed": "float"},
    "absmax has 3 elements, but must have 2: one for each block of 64 of 8x16": {"absmax": 3},
    "absmax has dtype torch.float16": {"absmax": "half"},
    "absmax is on meta": {"absmax": "meta"},
    "blocksize is 48, but must be one of 32, 64": {"blocksize": 48},
    "blocksize is 8192": {"blocksize": 8192},
    "quant_type is 'int4', but must be 'nf4' or 'fp4'": {"quant_type": "int4"},
    "absmax is a tuple of 2": {"absmax": "pair"},
    "n is -8": {"n": -8},
    "bias has 7 elements, but must have 8": {"bias": 7},
    "bias has dtype torch.float16": {"bias": "half"},
}


def made_wrong(held, wrong):
    """`held` with one of it another: a number of elements, a type or place of a tensor, or the value itself."""
    ((name, value),) = wrong.items()
    right, other = held[name], value
    if value == "pair":
        other = (right, right)
    elif isinstance(value, int) and isinstance(right, torch.Tensor):
        other = torch.zeros(value, dtype=right.dtype)
    elif isinstance(right, torch.Tensor):
        other = right.to("meta") if value == "meta" else getattr(right, value)()
    return {**held, name: other}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words):
    packed, absmax = kernelwright.quantize_4bit(torch.randn(8, 16))
    held = {"packed": packed, "absmax": absmax, "n": 8, "blocksize": 64, "quant_type": "nf4", "bias": torch.ones(8)}
    with pytest.raises(errors.InvalidArgument, match=f"^matmul_4bit: .*{words}") as caught:
        kernelwright.matmul_4bit(torch.randn(2, 16), **made_wrong(held, REFUSED[words]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (0, "codes has 1 elements, but must have 2: one for each block of 64 of 8x16"),
        (1, "absmax2 has 2 elements, but must have 1: one for each 256 of 2 scales"),
        (2, "map has 257 elements, but must have 256"),
        (3, "offset has 2 elements, but must have 1"),
    ],
)
def test_scales_of_scales_are_counted(place, words):
    weight = torch.randn(8, 16)
    packed, scales = kernelwright.quantize_4bit(weight, double_quant=True)
    wrong = list(scales)
    more = torch.cat([scales[place].reshape(-1), scales[place].reshape(-1)[:1]])
    wrong[place] = scales[place][:1] if place == 0 else more
    for call in (
        lambda absmax: kernelwright.matmul_4bit(torch.randn(2, 16), packed, absmax, 8),
        lambda absmax: kernelwright.dequantize_4bit(packed, absmax, (8, 16)),
    ):
        with pytest.raises(errors.InvalidArgument, match=f"_4bit: {words}"):
            call(four_bit.QuantizedAbsmax(*wrong))
        for other, kind in ((torch.float16, "dtype torch.float16"), ("meta", "on meta")):
            wrong_kind = scales._replace(**{scales._fields[place]: scales[place].to(other)})
            with pytest.raises(errors.InvalidArgument, match=f"{scales._fields[place]} .*{kind}"):
                call(wrong_kind)
        call(scales)


def test_the_path_without_kernels_within_autocast(device):
    """It is what a suspicious result is compared with."""
    packed, absmax = kernelwright.quantize_4bit(torch.randn(32, 256, device=device))
    x = torch.randn(5, 256, device=device)
    expected = reference.matmul(x, packed, absmax, None, 32, 64, "nf4")
    with torch.autocast(device, dtype=torch.bfloat16):
        assert torch.equal(reference.matmul(x, packed, absmax, None, 32, 64, "nf4"), expected)
        torch.testing.assert_close(kernelwright.matmul_4bit(x, packed, absmax, 32), expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("nested", [False, True])
def test_gradients_within_autocast(nested, device):
    """They have the type that the forward pass had, wherever backward() is called."""
    packed, absmax = kernelwright.quantize_4bit(torch.randn(32, 256, device=device), double_quant=nested)
    weight = kernelwright.dequantize_4bit(packed, absmax, (32, 256))
    x, gradient = torch.randn(5, 256, device=device, requires_grad=True), torch.randn(5, 32, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        y = kernelwright.matmul_4bit(x, packed, absmax, 32)
        assert y.dtype is torch.float32
        y.backward(gradient)
    torch.testing.assert_close(x.grad, gradient @ weight, rtol=1e-5, atol=1e-3)  # bfloat16 is 1e-2 off


def test_gradients_on_meta():
    """A model's shapes may be asked for there, with those of its gradients."""
    packed, absmax = (t.to("meta") for t in kernelwright.quantize_4bit(torch.randn(32, 256)))
    x = torch.randn(5, 256, device="meta", requires_grad=True)
    kernelwright.matmul_4bit(x, packed, absmax, 32).sum().backward()
    assert x.grad.shape == (5, 256)


def test_weights_have_no_gradients():
    packed, absmax = kernelwright.quantize_4bit(torch.randn(8, 16))
    x = torch.randn(2, 16)
    with pytest.raises(errors.Unsupported, match="absmax requires gradients, but only x and bias have them"):
        kernelwright.matmul_4bit(x, packed, absmax.requires_grad_(), 8)
    with torch.no_grad():
        kernelwright.matmul_4bit(x, packed, absmax, 8)


def test_the_gradient_of_a_bias_has_its_shape(device):
    """One for each row of the weight, in any shape."""
    packed, absmax = kernelwright.quantize_4bit(torch.randn(32, 64, device=device))
    bias = torch.randn(4, 8, device=device, requires_grad=True)
    y = kernelwright.matmul_4bit(torch.randn(3, 64, device=device), packed, absmax, 32, bias=bias)
    y.backward(given := torch.randn(3, 32, device=device))
    torch.testing.assert_close(bias.grad, given.sum(0).view(4, 8))


@pytest.mark.parametrize("place", range(3))
def test_none_is_no_tensor(place, device):
    """torch takes it for any tensor; where nothing wants gradients and where something does."""
    packed, absmax = kernelwright.quantize_4bit(torch.randn(8, 64, device=device))
    for wanted in (False, True):
        given = [torch.randn(2, 64, device=device, requires_grad=wanted), packed, absmax]
        given[place] = None
        with pytest.raises(
            errors.InvalidArgument, match=f"{('x', 'packed', 'absmax')[place]} is None, but must be a t"
        ):
            kernelwright.matmul_4bit(*given, 8, bias=torch.zeros(8, device=device, requires_grad=wanted))


def test_freed_bias(device):
    """To the library NULL is a bias that is not there."""
    weight, bias = torch.randn(8, 64, device=device), torch.randn(8, device=device)
    packed, absmax = kernelwright.quantize_4bit(weight)
    bias.untyped_storage().resize_(0)
    with pytest.raises(errors.InvalidArgument, match=r"^matmul_4bit: bias has shape \(8,\), but no memory"):
        kernelwright.matmul_4bit(torch.randn(2, 64, device=device), packed, absmax, 8, bias=bias)


def test_no_rows_and_no_columns(device):
    """M = 0 is empty; a weight without columns gives the bias."""
    packed, absmax = (t.to(device) for t in kernelwright.quantize_4bit(torch.randn(8, 16)))
    assert kernelwright.matmul_4bit(torch.randn(0, 16, device=device), packed, absmax, 8).shape == (0, 8)
    nothing, bias = torch.empty(0, dtype=torch.uint8, device=device), torch.randn(8, device=device)
    y = kernelwright.matmul_4bit(torch.empty(3, 0, device=device), nothing, absmax[:0], 8, bias=bias)
    assert torch.equal(y, bias.expand(3, 8))


def test_sums_are_of_float32():
    """Tighter than the records' tolerance, which allows for torch's product of a rounded weight: few rows are summed in
    float32 from weights that are not rounded, even where the result is."""
    x, weight = torch.randn(4, 4096).bfloat16(), torch.randn(96, 4096)
    packed, absmax = kernelwright.quantize_4bit(weight)
    for rows in (1, 2, 3, 4):
        found = kernelwright.matmul_4bit(x[:rows].float(), packed, absmax, 96)
        exact = reference.matmul(x[:rows].double(), packed, absmax, None, 96, 64, "nf4")
        terms = reference.terms_of_matmul(x[:rows].double(), packed, absmax, None, 96, 64, "nf4")[0]
        assert ((found - exact).abs() <= 1e-6 * terms).all()
        assert torch.equal(kernelwright.matmul_4bit(x[:rows], packed, absmax, 96), found.bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("nested", [False, True])
def test_products_of_many_rows_by_torch(dtype, nested):
    """What a GPU does from some number of rows on, here on the CPU: within the same bounds, autocast or not."""
    op = next(record for record in tensors.RECORDS if record.name == "matmul_4bit")
    overload = "nested" if nested else "default"
    x = torch.randn(65, 128).to(dtype)
    packed, scales = kernelwright.quantize_4bit(torch.randn(40, 128), 64, "nf4", double_quant=nested)
    args = (x, packed, *(scales if nested else [scales]), torch.randn(40).to(dtype), 40, 64, "nf4")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        matmul_4bit.by_torch(y := torch.full((65, 40), math.nan, dtype=dtype), *args)
    exact, terms = ([tensors.wide(a) for a in args] for _ in range(2))
    expected = tensors.outputs(op.overload(overload).reference(*exact))
    (bound,) = tensors.allowed(op, overload, terms, expected, [y])
    tensors.assert_near(y, expected[0], bound, overload)


# At most the weight and its codes are held at a time. Each row is the one before, an element further on.
MANY = """
import sys, torch, kernelwright
device, kind, n, k, size = sys.argv[1], sys.argv[2], 2**15 + 3, 2**16, 64
torch.manual_seed(int(sys.argv[3]))
torch.set_default_device(device)
firsts = (0, 2**14 - 3, 2**15 - 3)  # the last three rows lie beyond, and of the codes' bytes the middle
weight = torch.randn(n + k, dtype=torch.bfloat16).unfold(0, k, 1)[:n].contiguous()
kept = {first: weight[first : first + 6].clone() for first in firsts}
packed, absmax = kernelwright.quantize_4bit(weight, size, kind)
del weight
parts = {first: kernelwright.quantize_4bit(rows, size, kind) for first, rows in kept.items()}
for first, (codes, scales) in parts.items():
    assert torch.equal(packed.view(n, -1)[first : first + 6].reshape(-1), codes), first
    assert torch.equal(absmax.view(n, -1)[first : first + 6].reshape(-1), scales), first
back = kernelwright.dequantize_4bit(packed, absmax, (n, k), size, kind, torch.bfloat16)
values = {first: kernelwright.dequantize_4bit(*part, (6, k), size, kind, torch.bfloat16) for first, part in parts.items()}
for first, rows in values.items():
    assert torch.equal(back[first : first + 6], rows), first
del back
for count in (1, 2, 17):
    x = torch.randn(count, k, dtype=torch.bfloat16)
    y = kernelwright.matmul_4bit(x, packed, absmax, n, size, kind)
    for first, rows in values.items():
        exact, spread = x.double() @ rows.double().t(), (x.double() ** 2 @ rows.double().t() ** 2).sqrt()
        # The result is rounded, and so is each value, by half a unit that is up or down by chance.
        most = 2**-8 * exact.abs() + 6 * 2**-9 * spread
        assert ((y[:, first : first + 6].double() - exact).abs() <= most).all(), (count, first)
print("right")
"""


@pytest.mark.slow
@pytest.mark.parametrize("quant_type", four_bit.VALUES)
def test_more_elements_than_int32(device, quant_type, seed):
    """A weight of which elements beyond 2**31, their codes and scales are as those of its rows alone.

    In a process of its own: what this one has once used, its children would seem to use.
    """
    needed = 6 * 2**30
    free = available().size if device == "cpu" else torch.cuda.mem_get_info()[0]
    if free < needed:
        pytest.skip(f"needs {needed >> 30} GiB of memory, {free / 2**30:.0f} are available")
    done = run(MANY, device, quant_type, str(seed), timeout=300)
    assert done.stdout == "right\n", done.stderr
