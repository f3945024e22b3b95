# SPDX-License-Identifier: MIT
"""A linear layer whose weight is held in 4 bits."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernelwright import _library
from kernelwright.errors import InvalidArgument, Unsupported
from kernelwright.ops._calls import calls
from kernelwright.ops._handles import caller, handles, refused
from kernelwright.ops._record import Backward, Op, Overload
from kernelwright.ops._rules import flops_of_product
from kernelwright.ops._scratch import scratch, scratch_bytes
from kernelwright.ops._tensors import (
    dtype_codes,
    placement,
    refuse_freed,
    require_dtype,
    rows,
    without_autocast,
)
from kernelwright.ops.four_bit import _cases as cases
from kernelwright.ops.four_bit import _reference as reference
from kernelwright.ops.four_bit import _selfcheck as selfcheck
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from kernelwright._library import Library

_NAME, _FUNCTION = "matmul_4bit", "kw_matmul_4bit_tensors"

# Rows of x from which on a GPU dequantizes the weight and torch multiplies, where there are no kernels by warpgroups:
# those on tensor cores look a weight up again for each 64 rows, the others read it again for each 4.
MANY_ROWS, _MANY_ROWS_ELSE = 65, 17

# From so many rows of x on it is faster to dequantize a weight of so many elements than to take these kernels; of a
# smaller weight from as much fewer rows on, down to the third. On an H200, 33 shapes of 80 to 2048 rows.
_MANY_ROWS_BY_GROUPS, _WEIGHT_BY_GROUPS, _LEAST_BY_GROUPS = 640, 40 << 20, 4 << 20

# Bytes on which rows of x begin for the kernels of many rows by warpgroups.
_VECTOR = 16

# The same on a CPU, which looks a weight up again for each 64 rows; for types whose product torch has a fast way of.
_MANY_ROWS_ON_A_CPU = 256


def matmul_4bit(
    x: Tensor,
    packed: Tensor,
    absmax: Tensor | four_bit.QuantizedAbsmax,
    n: int,
    blocksize: int = 64,
    quant_type: str = "nf4",
    bias: Tensor | None = None,
) -> Tensor:
    """`x @ weight.T + bias` with a weight that quantize_4bit has packed; summed in float32.

    x           float32, float16 or bfloat16, [..., k], on the CPU or a GPU. float64 works too, for checking gradients:
                it is computed in plain torch. Rows (the last dimension) that do not lie evenly are copied first
    packed      the weight [n, k], two elements a byte, in any shape (bitsandbytes' is [n * k / 2, 1])
    absmax      the scales of its blocks, float32, or a QuantizedAbsmax
    n           rows of the weight; its columns are those of x
    blocksize, quant_type    as it was quantized
    bias        [n], of x's dtype, or None

    Returns [..., n] of x's dtype. Differentiable by x and bias; the weight is frozen.

    >>> packed, absmax = kernelwright.quantize_4bit(weight)
    >>> y = kernelwright.matmul_4bit(x, packed, absmax, weight.shape[0])
    """
    op = calls.matmul_4bit
    scales = four_bit.split_scales(_NAME, absmax)
    function = op.default if len(scales) == 1 else op.nested
    result: Tensor = function(x, packed, *scales, bias, n, blocksize, quant_type)
    return result


def _check(
    x: Tensor, packed: Tensor, scales: Sequence[Tensor], bias: Tensor | None, n: Any, blocksize: int, quant_type: str
) -> None:
    if not x.shape:
        raise InvalidArgument(f"{_NAME}: x has shape (), but must have at least one dimension")
    require_dtype(_NAME, "x", x, four_bit.dtypes(four_bit.FLOATS))
    if n < 0:
        raise InvalidArgument(f"{_NAME}: n is {n}, but must not be negative")
    four_bit.check_weight(_NAME, packed, scales, (n, x.shape[-1]), blocksize, quant_type, x, n)
    if bias is not None:
        dtype = str(x.dtype).partition(".")[2]
        four_bit.check_held(_NAME, "bias", bias, dtype, n, lambda: "one for each row of the weight", x)


def _fake_any(
    x: Tensor, packed: Tensor, scales: Sequence[Tensor], bias: Tensor | None, n: Any, blocksize: int, quant_type: str
) -> Tensor:
    _check(x, packed, scales, bias, n, blocksize, quant_type)
    return x.new_empty((*x.shape[:-1], n))


def _fake(
    x: Tensor, packed: Tensor, absmax: Tensor, bias: Tensor | None, n: Any, blocksize: int, quant_type: str
) -> Tensor:
    return _fake_any(x, packed, (absmax,), bias, n, blocksize, quant_type)


def _fake_nested(
    x: Tensor,
    packed: Tensor,
    codes: Tensor,
    absmax2: Tensor,
    map: Tensor,  # noqa: A002 - the schema's
    offset: Tensor,
    bias: Tensor | None,
    n: Any,
    blocksize: int,
    quant_type: str,
) -> Tensor:
    return _fake_any(x, packed, (codes, absmax2, map, offset), bias, n, blocksize, quant_type)


# --- the kernels ----------------------------------------------------------------


def by_torch(y: Tensor, x: Tensor, packed: Tensor, *rest: Any) -> None:
    """The same into `y` with the whole weight dequantized: what is faster for many rows of x."""
    import torch

    *scales, bias, n, blocksize, quant_type = rest
    op = calls.dequantize_4bit
    function = op.default if len(scales) == 1 else op.nested
    weight = function(packed, *scales, (n, x.shape[-1]), blocksize, quant_type, x.dtype)
    matrices = x.reshape(-1, x.shape[-1]), weight.t()
    with without_autocast(x.device):
        if bias is None:
            torch.mm(*matrices, out=y.view(-1, n))
        else:
            torch.addmm(bias, *matrices, out=y.view(-1, n))


@lru_cache
def by_groups(device: int) -> bool:
    """Whether a GPU has kernels by warpgroups."""
    library = _library.load()
    return (
        scratch_bytes(library, f"kw_{_NAME}_workspace")(device, MANY_ROWS, 64, 64, 64, library.constants["KW_FLOAT16"])
        > 0
    )


def _many_rows(
    library: Library, key: str, needed: Callable[..., int]
) -> tuple[int, Callable[[Tensor, int, tuple[int, ...]], bool]]:
    """From how many rows of x on to ask: many(x, device, sizes), whether torch multiplies."""

    def on_gpu(x: Tensor, device: int, sizes: tuple[int, ...]) -> bool:
        rows, n, k, *_ = sizes
        if x.element_size() != 2 or k % 32 != 0:
            return rows >= _MANY_ROWS_ELSE
        if rows < MANY_ROWS:
            return False
        elements = min(n * k, _WEIGHT_BY_GROUPS) - _LEAST_BY_GROUPS
        dense = rows * (_WEIGHT_BY_GROUPS - _LEAST_BY_GROUPS) >= _MANY_ROWS_BY_GROUPS * elements
        # The library wants memory where there are kernels by warpgroups.
        return dense or unaligned(x) or needed(device, *sizes) == 0

    def unaligned(x: Tensor) -> bool:
        return x.data_ptr() % _VECTOR != 0 or any(stride * 2 % _VECTOR for stride in x.stride()[:-1])

    def on_cpu(x: Tensor, device: int, sizes: tuple[int, ...]) -> bool:  # noqa: ARG001 - as on_gpu
        """float32; and bfloat16 where there is a matrix unit, which torch uses too: without one it may be very slow."""
        kinds = four_bit.dtypes(("float32", "bfloat16"))
        return x.dtype == kinds[0] or (x.dtype == kinds[1] and library.text("kw_cpu_isa") == "amx")

    return (_MANY_ROWS_ON_A_CPU, on_cpu) if key == "CPU" else (_MANY_ROWS_ELSE, on_gpu)


def _planner(library: Library) -> Callable[..., Any]:
    """plan(x.shape, x.dtype, n, blocksize, quant_type): what follows from these alone, in a tuple. None: there is
    something to refuse, or torch computes it."""
    numbers = dtype_codes(library, ("float32", "float16", "bfloat16"))
    types = {name: library.constants[f"KW_{name.upper()}"] for name in four_bit.VALUES}

    @lru_cache(maxsize=1024)
    def plan(shape: tuple[int, ...], dtype: Any, n: int, blocksize: int, quant_type: str) -> Any:
        usual = shape and dtype in numbers and n >= 0
        if not usual or blocksize not in four_bit.BLOCKSIZES or quant_type not in types:
            return None
        *lead, k = shape
        sizes = four_bit.elements(lead), n, k, blocksize, numbers[dtype]
        return sizes, (*lead, n), types[quant_type], four_bit.packed_bytes(n * k)

    return plan


def _launcher(library: Library, key: str) -> Callable[..., Tensor | None]:
    """launch(x, packed, *scales, bias, n, blocksize, quant_type): the product; None where there is something to refuse,
    or to copy but x."""
    (call, pack, refuse), plan = caller(library, _FUNCTION), _planner(library)
    place, needed = placement(library, key), scratch_bytes(library, f"kw_{_NAME}_workspace")
    least, many = _many_rows(library, key, needed)
    at: Callable[[Tensor], int] | None = None

    def launch(x: Tensor, packed: Tensor, *rest: Any) -> Tensor | None:
        nonlocal at
        at = at or handles(library)
        *scales, bias, n, blocksize, quant_type = rest
        found = plan(x.shape, x.dtype, n, blocksize, quant_type)
        if found is None or packed.numel() != found[3]:  # a wrong n may ask for more than there is memory
            return None
        sizes, shape, kind, _ = found
        y, (device, stream), size = x.new_empty(*shape), place(x), 0
        if 0 not in sizes[:2]:
            if sizes[0] >= least and sizes[2] and many(x, device, sizes):
                _check(x, packed, scales, bias, n, blocksize, quant_type)
                refuse_freed(_NAME, x=x, bias=bias)
                by_torch(y, x, packed, *scales, bias, n, blocksize, quant_type)
                return y
            size = needed(device, *sizes)
        _memory, scratch_at = scratch(x, device, size)
        if not x.is_contiguous():
            refuse_freed(_NAME, x=x)
            x = rows(x)[0]
        weight, bias_at = four_bit.weight_arguments(at, packed, scales), 0 if bias is None else at(bias)
        status = call(pack(stream, at(y), at(x), *weight, bias_at, scratch_at, size, blocksize, kind))
        if status:
            refuse(status)
            return None
        return y

    return launch


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    launch = _launcher(library, key)

    def run(x: Tensor, packed: Tensor, *rest: Any) -> Tensor:
        found = launch(x, packed, *rest)
        if found is not None:
            return found
        *scales, bias, n, blocksize, quant_type = rest
        _check(x, packed, scales, bias, n, blocksize, quant_type)
        refuse_freed(_NAME, x=x, packed=packed, **four_bit.named_scales(scales), bias=bias)
        if x.dtype == four_bit.dtypes(("float64",))[0]:
            return reference.product(x, packed, scales, bias, n, blocksize, quant_type)
        bias = None if bias is None else bias.contiguous()
        weight = [tensor.contiguous() for tensor in (packed, *scales)]
        found = launch(x, *weight, bias, n, blocksize, quant_type)
        return found if found is not None else refused(library, _FUNCTION)

    return run


# --- gradients --------------------------------------------------------------------


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001 - torch passes it by name
    x, packed, *scales, bias, n, blocksize, quant_type = inputs
    for place, scale in enumerate(scales):
        if ctx.needs_input_grad[2 + place]:
            name = list(four_bit.named_scales(scales))[place]
            raise Unsupported(
                f"{_NAME}: {name} requires gradients, but only x and bias have them: the weight is frozen; "
                f"give it without (.detach()), a tensor of shape {tuple(scale.shape)}"
            )
    ctx.save_for_backward(packed, *scales)
    ctx.rest = (n, x.shape[-1]), blocksize, quant_type
    by_bias = bias is not None and ctx.needs_input_grad[2 + len(scales)]
    ctx.wanted = ctx.needs_input_grad[0], bias.shape if by_bias else None


_threads = threading.local()


def _make_current(device: Any) -> None:
    """Once a thread: autograd's have no CUDA context before a kernel of torch's ran there, and cuBLAS would warn."""
    import torch

    if device.type == "cuda" and device not in (known := _threads.__dict__.setdefault("devices", set())):
        torch.zeros(1, device=device)
        known.add(device)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    import torch

    packed, *scales = ctx.saved_tensors
    op = calls.dequantize_4bit
    function = op.default if len(scales) == 1 else op.nested
    by_x = by_bias = None
    if ctx.wanted[0]:
        _make_current(grad.device)
        with without_autocast(grad.device):  # backward() may be called within it
            by_x = torch.matmul(grad, function(packed, *scales, *ctx.rest, grad.dtype))
    if ctx.wanted[1] is not None:
        by_bias = grad.reshape(-1, grad.shape[-1]).sum(0).view(ctx.wanted[1])
    return (by_x, None, *(None for _ in scales), by_bias, None, None, None)


OP = Op(
    name=_NAME,
    doc="linear layer with an NF4 or FP4 weight, plain or 8-bit scales",
    function=matmul_4bit,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor packed, Tensor absmax, Tensor? bias, SymInt n, int blocksize, str quant_type)"
            " -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=reference.matmul,
            backward=Backward(_save, _gradients),
            terms=reference.terms_of_matmul,
            fixed=("packed", "absmax"),
            rows=("x",),
        ),
        Overload(
            name="nested",
            schema="(Tensor x, Tensor packed, Tensor codes, Tensor absmax2, Tensor map, Tensor offset, Tensor? bias,"
            " SymInt n, int blocksize, str quant_type) -> Tensor",
            bind=_bind,
            fake=_fake_nested,
            reference=reference.matmul_nested,
            backward=Backward(_save, _gradients),
            terms=reference.terms_of_matmul,
            fixed=("packed", "codes", "absmax2", "map", "offset"),
            rows=("x",),
        ),
    ),
    cases=cases.MATMUL,
    benchmarks=cases.MATMUL_BENCHMARKS,
    make=cases.make_matmul,
    bytes=cases.matmul_traffic,
    flops=cases.matmul_flops,
    flop_formula=flops_of_product,
    tolerances=cases.SUMS,
    selfcheck=selfcheck.matmul,
    eager=cases.EAGER,
)
