# SPDX-License-Identifier: MIT
"""Linear layers of experts, whose weights are held in 4 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument, Unsupported
from kernelwright.ops._calls import calls
from kernelwright.ops._handles import caller, handles, refused
from kernelwright.ops._record import Backward, Op, Overload
from kernelwright.ops._rules import flops_of_product
from kernelwright.ops._scratch import scratch, scratch_bytes
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, require_dtype, rows, without_autocast
from kernelwright.ops.four_bit import _cases as cases
from kernelwright.ops.four_bit import _grouped as definition
from kernelwright.ops.four_bit import _reference as reference
from kernelwright.ops.four_bit import _selfcheck as selfcheck
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from kernelwright._library import Library

_NAME, _FUNCTION = "matmul_4bit_grouped", "kw_matmul_4bit_grouped_tensors"


def matmul_4bit_grouped(
    x: Tensor,
    packed: Tensor,
    absmax: Tensor | four_bit.QuantizedAbsmax,
    ends: Tensor,
    n: int,
    blocksize: int = 64,
    quant_type: str = "nf4",
) -> Tensor:
    """`x[r] @ weight[e].T` for each row r of x, sorted by the expert e that it is for; summed in float32.

    x           float32, float16 or bfloat16, [..., k], on the CPU or a GPU. float64 works too, for checking gradients
    packed      the weights [experts, n, k] that quantize_4bit has packed in one call, in any shape
    absmax      the scales of their blocks, float32, or a QuantizedAbsmax
    ends        int32, [experts]: rows of x from ends[e - 1] up to ends[e] are for expert e, as
                torch.nn.functional.grouped_mm's `offs`. Rows after the last end become 0; an end that is out of order
                counts as the one before it. On a GPU nobody waits for its values
    n           rows of each expert's weight; its columns are those of x
    blocksize, quant_type    as it was quantized. Experts may not share a block: of more than one, n * k is a multiple
                of blocksize, and of 256 times that with a QuantizedAbsmax

    Returns [..., n] of x's dtype. Differentiable by x; on a GPU the backward pass waits for `ends`.

    >>> packed, absmax = kernelwright.quantize_4bit(weight)  # [experts, n, k]
    >>> ends = torch.tensor([3, 3, 7], dtype=torch.int32)  # three rows for the first, none for the second
    >>> y = kernelwright.matmul_4bit_grouped(x, packed, absmax, ends, weight.shape[1])
    """
    op = calls.matmul_4bit_grouped
    scales = four_bit.split_scales(_NAME, absmax)
    function = op.default if len(scales) == 1 else op.nested
    result: Tensor = function(x, packed, *scales, ends, n, blocksize, quant_type)
    return result


def _check(
    x: Tensor,
    packed: Tensor,
    scales: Sequence[Tensor],
    ends: Tensor,
    shape: tuple[Any, Any],
    blocksize: int,
    quant_type: str,
) -> None:
    require_dtype(_NAME, "x", x, four_bit.dtypes(four_bit.FLOATS))
    four_bit.check_held(_NAME, "ends", ends, "int32", ends.numel(), lambda: "", x)
    experts, each = ends.numel(), four_bit.elements(shape)
    four_bit.check_weight(_NAME, packed, scales, (experts, *shape), blocksize, quant_type, x, 1)
    block = blocksize if len(scales) == 1 else blocksize * four_bit.SCALES_A_BLOCK
    if experts > 1 and each % block:
        raise Unsupported(
            f"{_NAME}: an expert's weight has {each} elements, which must be a multiple of {block} so that experts "
            f"share no block of {'elements' if len(scales) == 1 else 'quantized scales'}; take smaller blocks, or "
            "quantize each expert by itself"
        )


def _require(x: Tensor, name: str, size: Any) -> None:
    if not x.shape:
        raise InvalidArgument(f"{_NAME}: x has shape (), but must have at least one dimension")
    if size < 0:
        raise InvalidArgument(f"{_NAME}: {name} is {size}, but must not be negative")


def _made(x: Tensor, packed: Tensor, scales: Sequence[Tensor], ends: Tensor, n: Any, *how: Any) -> Tensor:
    _require(x, "n", n)
    _check(x, packed, scales, ends, (n, x.shape[-1]), *how)
    return x.new_empty((*x.shape[:-1], n))


def _fake(x: Tensor, packed: Tensor, absmax: Tensor, ends: Tensor, n: Any, blocksize: int, quant_type: str) -> Tensor:
    return _made(x, packed, (absmax,), ends, n, blocksize, quant_type)


def _fake_nested(
    x: Tensor,
    packed: Tensor,
    codes: Tensor,
    absmax2: Tensor,
    map: Tensor,  # noqa: A002 - the schema's name
    offset: Tensor,
    ends: Tensor,
    n: Any,
    blocksize: int,
    quant_type: str,
) -> Tensor:
    return _made(x, packed, (codes, absmax2, map, offset), ends, n, blocksize, quant_type)


def _fake_transposed(
    x: Tensor, packed: Tensor, absmax: Tensor, ends: Tensor, k: Any, blocksize: int, quant_type: str
) -> Tensor:
    _require(x, "k", k)
    _check(x, packed, (absmax,), ends, (x.shape[-1], k), blocksize, quant_type)
    return x.new_empty((*x.shape[:-1], k))


# --- the kernels ----------------------------------------------------------------


def _launcher(library: Library, key: str) -> Callable[..., Tensor | None]:
    """launch(x, packed, *scales, ends, n, blocksize, quant_type); None where there is something to refuse or copy."""
    call, pack, refuse = caller(library, _FUNCTION)
    place, needed = placement(library, key), scratch_bytes(library, "kw_matmul_4bit_workspace")
    numbers = dtype_codes(library, cases.DTYPES)
    types = {name: library.constants[f"KW_{name.upper()}"] for name in four_bit.VALUES}

    def launch(x: Tensor, packed: Tensor, *rest: Any) -> Tensor | None:
        *scales, ends, n, blocksize, quant_type = rest
        device, stream = place(x)
        y, size, m = x.new_empty((*x.shape[:-1], n)), 0, four_bit.elements(x.shape[:-1])
        if device < 0 and y.numel():
            size = needed(device, m, n, x.shape[-1], blocksize, numbers[x.dtype])
        at, given = handles(library), rows(x)[0]  # a copy must live as long as the call
        _memory, scratch_at = scratch(x, device, size)
        weight = four_bit.weight_arguments(at, packed, scales)
        arguments = (*weight, at(ends), scratch_at, size, blocksize, types[quant_type])
        status = call(pack(stream, at(y), at(given), *arguments))
        if status:
            refuse(status)
            return None
        return y

    return launch


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    launch = _launcher(library, key)

    def run(x: Tensor, packed: Tensor, *rest: Any) -> Tensor:
        *scales, ends, n, blocksize, quant_type = rest
        _made(x, packed, scales, ends, n, blocksize, quant_type)
        refuse_freed(_NAME, x=x, packed=packed, **four_bit.named_scales(scales), ends=ends)
        if x.dtype == four_bit.dtypes(("float64",))[0]:
            return definition.product(x, packed, scales, ends, n, blocksize, quant_type)
        held = [tensor.contiguous() for tensor in (packed, *scales, ends)]
        found = launch(x, *held, n, blocksize, quant_type)
        return found if found is not None else refused(library, _FUNCTION)

    return run


def _bind_transposed(library: Library, key: str) -> Callable[..., Tensor]:  # noqa: ARG001 - each is called so
    def run(x: Tensor, packed: Tensor, absmax: Tensor, ends: Tensor, k: int, blocksize: int, quant_type: str) -> Tensor:
        y = _fake_transposed(x, packed, absmax, ends, k, blocksize, quant_type).zero_()
        refuse_freed(_NAME, x=x, packed=packed, absmax=absmax, ends=ends)
        if absmax.data_ptr() % absmax.element_size():
            raise InvalidArgument(
                f"kw_{_NAME}: absmax is at {absmax.data_ptr():#x}; its elements of 4 bytes need an address that is a "
                "multiple of 4"
            )
        if x.dtype == four_bit.dtypes(("float64",))[0]:
            return definition.transposed(x, packed, absmax, ends, k, blocksize, quant_type)
        if y.numel() and x.shape[-1]:
            _add_experts(y.view(-1, k), x.reshape(-1, x.shape[-1]), (packed, absmax), ends, blocksize, quant_type)
        return y

    return run


def _add_experts(
    y: Tensor, x: Tensor, weight: tuple[Tensor, Tensor], ends: Tensor, blocksize: int, quant_type: str
) -> None:
    """Into y, an expert at a time, whose weight is dequantized alone."""
    import torch

    shape, (packed, absmax) = (x.shape[-1], y.shape[-1]), (part.reshape(-1) for part in weight)
    bytes_each, scales_each = (
        four_bit.packed_bytes(four_bit.elements(shape)),
        four_bit.blocks(four_bit.elements(shape), blocksize),
    )
    first = 0
    for number, end in enumerate(ends.reshape(-1).tolist()):
        last = min(max(end, first), x.shape[0])
        if last > first:
            codes = packed.narrow(0, number * bytes_each, bytes_each)
            scales = absmax.narrow(0, number * scales_each, scales_each)
            matrix = calls.dequantize_4bit.default(codes, scales, shape, blocksize, quant_type, x.dtype)
            with without_autocast(x.device):
                torch.mm(x[first:last], matrix, out=y[first:last])
        first = last


# --- gradients --------------------------------------------------------------------


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001 - torch passes it by name
    x, packed, *scales, ends, _, blocksize, quant_type = inputs
    for place, name in enumerate(four_bit.named_scales(scales)):
        if ctx.needs_input_grad[2 + place]:
            raise Unsupported(
                f"{_NAME}: {name} requires gradients, but only x has them: the weights are frozen; give it without "
                "(.detach())"
            )
    ctx.save_for_backward(packed, ends, *scales)
    ctx.rest, ctx.scales = (x.shape[-1], blocksize, quant_type), len(scales)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    packed, ends, *scales = ctx.saved_tensors
    op = calls.matmul_4bit_grouped.transposed
    by_x = op(grad, packed, reference.plain_scales(scales), ends, *ctx.rest) if ctx.needs_input_grad[0] else None
    return (by_x, None, *(None for _ in scales), None, None, None, None)


def _gradients_of_transposed(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    packed, ends, absmax = ctx.saved_tensors
    op = calls.matmul_4bit_grouped.default
    return (op(grad, packed, absmax, ends, *ctx.rest), None, None, None, None, None, None)


OP = Op(
    name=_NAME,
    doc="linear layers of experts with NF4 or FP4 weights, each row of x for one of them",
    function=matmul_4bit_grouped,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor packed, Tensor absmax, Tensor ends, SymInt n, int blocksize, str quant_type)"
            " -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=definition.grouped,
            backward=Backward(_save, _gradients),
            terms=definition.terms,
            fixed=("packed", "absmax", "ends"),
        ),
        Overload(
            name="nested",
            schema="(Tensor x, Tensor packed, Tensor codes, Tensor absmax2, Tensor map, Tensor offset, Tensor ends,"
            " SymInt n, int blocksize, str quant_type) -> Tensor",
            bind=_bind,
            fake=_fake_nested,
            reference=definition.nested,
            backward=Backward(_save, _gradients),
            terms=definition.terms,
            fixed=("packed", "codes", "absmax2", "map", "offset", "ends"),
        ),
        Overload(
            name="transposed",
            schema="(Tensor x, Tensor packed, Tensor absmax, Tensor ends, SymInt k, int blocksize, str quant_type)"
            " -> Tensor",
            bind=_bind_transposed,
            fake=_fake_transposed,
            reference=definition.transposed,
            backward=Backward(_save, _gradients_of_transposed),
            terms=definition.terms_of_transposed,
            fixed=("packed", "absmax", "ends"),
            reads_on_host=True,
            in_python="the gradient of x: torch's products, with each expert's weight dequantized",
        ),
    ),
    cases=definition.CASES,
    benchmarks=definition.BENCHMARKS,
    make=definition.make,
    bytes=definition.traffic,
    flops=definition.flops,
    flop_formula=flops_of_product,
    tolerances=cases.SUMS,
    selfcheck=selfcheck.grouped,
)
