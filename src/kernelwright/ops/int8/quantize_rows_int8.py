# SPDX-License-Identifier: MIT
"""Rows into 8-bit integers with one scale a row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._calls import calls
from kernelwright.ops._record import Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, rows
from kernelwright.ops.int8 import _rows as definition

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_NAME, _FUNCTION = definition.NAME, "kw_quantize_rows_int8"


def quantize_rows_int8(
    x: Tensor,
    *,
    clamp: float = 0.0,
    weight: Tensor | None = None,
    eps: float | None = None,
    sums: bool = False,
    threshold: float = 0.0,
) -> tuple[Tensor, ...]:
    """Quantizes each row (last dimension) to whole numbers from -127 to 127, with one scale a row.

    `absmax = max(largest |h| of the row, clamp)` and `code = round(h * (127 * (1 / absmax)))`, half to even, so that h
    is `code * absmax / 127`; h is x, or its RMS norm. A row with an infinity or a NaN has codes 0; absmax tells of it.

    x          float32, float16 or bfloat16, of any shape, on the CPU or a GPU; computed in float32. float64 works too,
               in plain torch
    clamp      the least absmax: 1e-5 in ternary models, 0 in LLM.int8
    eps        quantize `x / sqrt(mean(x * x) + eps) * weight` instead, without rounding it first; None: no norm
    weight     with eps: one factor a column, of x's dtype or float32; None for no factor
    sums       also return the sum of each row's codes
    threshold  above 0, the way of LLM.int8: elements of this size or more do not count for absmax; codes of their
               columns are 0 in all rows, and these columns are returned. Not together with sums or eps

    Returns `(codes, absmax)`: int8 of the shape of x, and float32 of its leading dimensions. With `sums` also these, in
    int32; with `threshold` also a bool for each column. Not differentiable.

    >>> codes, absmax = kernelwright.quantize_rows_int8(x)
    >>> codes, absmax, sums = kernelwright.quantize_rows_int8(x, clamp=1e-5, weight=norm.weight, eps=1e-5, sums=True)
    """
    if threshold != 0.0:
        if sums or eps is not None or weight is not None:
            raise InvalidArgument(
                f"{_NAME}: threshold cannot be combined with sums, eps or weight; leave one of them out"
            )
        import torch

        codes, absmax, columns = calls.quantize_rows_int8.outliers(x, threshold, clamp)
        return codes, absmax, columns.view(torch.bool)
    norm = definition.norms_eps(_NAME, eps)
    op = calls.quantize_rows_int8
    found: tuple[Tensor, ...] = (op.sums if sums else op.default)(x, weight, norm, clamp)
    return found


def _fake(x: Tensor, weight: Tensor | None, eps: float, clamp: float) -> tuple[Tensor, Tensor]:
    import torch

    definition.check(x, weight, eps, clamp)
    return x.new_empty(x.shape, dtype=torch.int8), x.new_empty(x.shape[:-1], dtype=torch.float32)


def _fake_sums(x: Tensor, weight: Tensor | None, eps: float, clamp: float) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    return *_fake(x, weight, eps, clamp), x.new_empty(x.shape[:-1], dtype=torch.int32)


def _fake_outliers(x: Tensor, threshold: float, clamp: float) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    definition.check_outliers(x, threshold, clamp)
    codes, absmax = x.new_empty(x.shape, dtype=torch.int8), x.new_empty(x.shape[:-1], dtype=torch.float32)
    return codes, absmax, x.new_empty(x.shape[-1:], dtype=torch.uint8)


class _Call:
    """A call of the C function on tensors that were checked."""

    def __init__(self, library: Library, key: str) -> None:
        self.library, self.place, self.call = library, placement(library, key), library.functions["kw_call"]
        self.numbers = dtype_codes(library, definition.FLOATS[:3])
        self.pack, self.function = library.packer(_FUNCTION)

    def __call__(
        self, outputs: tuple[Tensor, ...], x: Tensor, weight: Tensor | None, rest: tuple[float, float, float]
    ) -> None:
        """`outputs`: codes, absmax, and sums or the columns of outliers, as rest, (clamp, threshold, eps), has it."""
        refuse_freed(_NAME, x=x, weight=weight)
        cols = x.shape[-1]
        count = math.prod(x.shape[:-1])
        numbers = self.numbers
        x, stride = rows(x)
        factor = weight if weight is None else weight.contiguous()
        codes, absmax, *more = (tensor.data_ptr() for tensor in outputs)
        last = more[0] if more else 0
        to = (codes, cols, absmax, 0, last) if rest[1] > 0.0 else (codes, cols, absmax, last, 0)
        of = (0, numbers[x.dtype]) if factor is None else (factor.data_ptr(), numbers[factor.dtype])
        device, stream = self.place(x)
        sizes = count, cols, numbers[x.dtype], of[1]
        status = self.call(self.pack(self.function, device, stream, *to, x.data_ptr(), stride, of[0], *sizes, *rest))
        if status:
            self.library.fail(_FUNCTION, status)


def _bind(
    fake: Callable[..., tuple[Tensor, ...]], reference: Callable[..., tuple[Tensor, ...]]
) -> Callable[[Library, str], Callable[..., tuple[Tensor, ...]]]:
    def bind(library: Library, key: str) -> Callable[..., tuple[Tensor, ...]]:
        call = _Call(library, key)

        def run(x: Tensor, weight: Tensor | None, eps: float, clamp: float) -> tuple[Tensor, ...]:
            outputs = fake(x, weight, eps, clamp)
            if x.dtype not in call.numbers:
                refuse_freed(_NAME, x=x, weight=weight)
                return reference(x, weight, eps, clamp)
            call(outputs, x, weight, (clamp, 0.0, eps))
            return outputs

        return run

    return bind


def _bind_outliers(library: Library, key: str) -> Callable[..., tuple[Tensor, ...]]:
    call = _Call(library, key)

    def run(x: Tensor, threshold: float, clamp: float) -> tuple[Tensor, ...]:
        outputs = _fake_outliers(x, threshold, clamp)
        if x.dtype not in call.numbers:
            refuse_freed(_NAME, x=x)
            return definition.without_outliers(x, threshold, clamp)
        call(outputs, x, None, (clamp, threshold, -1.0))
        return outputs

    return run


def _overload(name: str, arguments: str, **fields: Any) -> Overload:
    results = "Tensor, Tensor" if name == "default" else "Tensor, Tensor, Tensor"
    return Overload(name=name, schema=f"({arguments}) -> ({results})", **fields)


_NORM = "Tensor x, Tensor? weight, float eps, float clamp"

OP = Op(
    name=_NAME,
    doc="rows into 8-bit integers with one scale a row, after their RMS norm or without outliers (LLM.int8, ternary)",
    function=quantize_rows_int8,
    overloads=(
        _overload(
            "default",
            _NORM,
            bind=_bind(_fake, definition.quantize),
            fake=_fake,
            reference=definition.quantize,
            terms=definition.terms_of_quantize,
            rows=("x",),
        ),
        _overload(
            "sums",
            _NORM,
            bind=_bind(_fake_sums, definition.with_sums),
            fake=_fake_sums,
            reference=definition.with_sums,
            terms=definition.terms_of_sums,
            rows=("x",),
        ),
        _overload(
            "outliers",
            "Tensor x, float threshold, float clamp",
            bind=_bind_outliers,
            fake=_fake_outliers,
            reference=definition.without_outliers,
            terms=definition.terms_of_outliers,
        ),
    ),
    cases=definition.CASES,
    benchmarks=definition.BENCHMARKS,
    make=definition.make,
    bytes=definition.traffic,
    flops=lambda case: 4 * math.prod(case.shape),  # the size, a comparison, a product, the rounding
    tolerances=definition.EXACT,
    selfcheck=definition.selfcheck,
)
