# SPDX-License-Identifier: MIT
"""From checked tensors to a call of kw_<norm> or kw_<norm>_backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._scratch import scratch, scratch_bytes
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

    Parameters = tuple[Tensor | None, ...]

_DTYPES = ("float32", "float16", "bfloat16")
_PARAMETERS = ("weight", "bias")


def _given(op: str, kind: Any, parameters: Parameters) -> tuple[list[Tensor], list[int | None], Any]:
    """The parameters with their elements side by side (they must outlive the call), their addresses and their type:
    `kind` where there are none."""
    kept: list[Tensor] = []
    addresses: list[int | None] = []
    for name, parameter in zip(_PARAMETERS, parameters, strict=False):
        if parameter is None:
            addresses.append(None)
            continue
        kept.append(parameter if parameter.is_contiguous() else parameter.contiguous())
        addresses.append(kept[-1].data_ptr() or refuse_freed(op, name, kept[-1]))
        kind = parameter.dtype
    return kept, addresses, kind


def _asked(
    empty: Any, h: Tensor, parameters: Parameters, wanted: tuple[bool, ...]
) -> tuple[list[Tensor], list[int | None]]:
    """Room for the derivatives of the parameters: no element where it is not wanted; and the addresses."""
    tensors, addresses = [], []
    cols, device = h.shape[-1], h.device
    for parameter, want in zip(parameters, wanted, strict=True):
        dtype = (h if parameter is None else parameter).dtype
        tensors.append(empty(cols if want else 0, dtype=dtype, device=device))
        addresses.append(tensors[-1].data_ptr() if want else None)
    return tensors, addresses


def launcher(norm: str, library: Library, key: str, *, centered: bool) -> Callable[..., Tensor]:
    """launch(x, residual, parameters, total, eps): y; x + residual goes to `total`, new or the residual itself."""
    import torch

    name = f"kw_{norm}"
    function = library.functions[name]
    codes = dtype_codes(library, _DTYPES)
    place = placement(library, key)
    contiguous = torch.contiguous_format
    statistics = [None] * (1 + centered)  # backward computes them again: cheaper than writing and reading them

    def launch(x: Tensor, residual: Tensor | None, parameters: Parameters, total: Tensor | None, eps: float) -> Tensor:
        y = torch.empty_like(x, memory_format=contiguous)
        cols, count = x.shape[-1], x.numel()
        if count == 0:
            return y
        x, x_stride = rows(x)
        dtype = x.dtype
        _kept, addresses, kind = _given(norm, dtype, parameters)
        added, added_stride, sum_, sum_stride = None, 0, None, 0
        if residual is not None and total is not None:
            residual, added_stride = rows(residual)
            added = residual.data_ptr() or refuse_freed(norm, "residual", residual)
            # In place the sum is the residual; otherwise it is new, and its rows adjoin.
            sum_, sum_stride = total.data_ptr(), added_stride if total is residual else cols
        device, stream = place(x)
        # fmt: off
        status = function(
            device, stream, y.data_ptr(), cols, sum_, sum_stride, x.data_ptr(), x_stride, added, added_stride,
            *addresses, *statistics, count // cols, cols, codes[dtype], codes[kind], eps,
        )
        # fmt: on
        if status:
            library.fail(name, status)
        return y

    return launch


def backward_launcher(norm: str, library: Library, key: str, *, centered: bool) -> Callable[..., tuple[Tensor, ...]]:
    """launch(grad, h, parameters, grad_sum, eps, wanted): the derivatives of h and of each parameter."""
    import torch

    name = f"kw_{norm}_backward"
    function = library.functions[name]
    codes = dtype_codes(library, _DTYPES)
    place, needed = placement(library, key), scratch_bytes(library, f"kw_{norm}_backward_workspace")
    contiguous = torch.contiguous_format
    statistics = [None] * (1 + centered)

    def launch(
        grad: Tensor,
        h: Tensor,
        parameters: Parameters,
        grad_sum: Tensor | None,
        eps: float,
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor, ...]:
        cols, count = h.shape[-1], h.numel()
        to_h = torch.empty_like(h, memory_format=contiguous)
        found, found_at = _asked(torch.empty, h, parameters, wanted)
        if count == 0:
            return to_h, *(tensor.zero_() for tensor in found)
        grad, grad_stride = rows(grad)
        h, h_stride = rows(h)
        _kept, (weight, *_), kind = _given(norm, h.dtype, parameters)
        grad_sum, sum_stride = (None, 0) if grad_sum is None else rows(grad_sum)
        grad_sum_at = None
        if grad_sum is not None:
            grad_sum_at = grad_sum.data_ptr() or refuse_freed(norm, "grad_sum", grad_sum)
        device, stream = place(h)
        scratch_size = needed(device, count // cols, cols) if True in wanted else 0
        _scratch, scratch_at = scratch(h, device, scratch_size)
        # fmt: off
        status = function(
            device, stream, to_h.data_ptr(), cols, *found_at, grad.data_ptr(), grad_stride, grad_sum_at, sum_stride,
            h.data_ptr(), h_stride, weight, *statistics, scratch_at, scratch_size,
            count // cols, cols, codes[h.dtype], codes[kind], eps,
        )
        # fmt: on
        if status:
            library.fail(name, status)
        return to_h, *found

    return launch
