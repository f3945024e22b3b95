# SPDX-License-Identifier: MIT
"""From tensors to a call of kw_linear_tensors, or to torch's own product where that is the faster way."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._handles import caller, handles
from kernelwright.ops._tensors import (
    dtype_codes,
    placement,
    refuse_freed,
    require_dtype,
    require_like,
    row_stride,
)
from kernelwright.ops.linear import _reference as reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

NAME, _FUNCTION = "linear", "kw_linear_tensors"
_DTYPES = ("float32", "float16", "bfloat16")
_ALIGNMENT = 16  # what the kernels for tensor cores want of addresses and rows


def check(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> None:
    import torch

    if not x.shape:
        raise InvalidArgument(f"{NAME}: x has shape (), but must have at least one dimension")
    require_dtype(NAME, "x", x, (*(getattr(torch, name) for name in _DTYPES), torch.float64))
    if activation not in reference.ACTIVATIONS:
        raise InvalidArgument(f"{NAME}: activation is {activation!r}, but must be {_choices()}")
    if weight.dim() != 2:
        raise InvalidArgument(f"{NAME}: weight has shape {tuple(weight.shape)}, but must have two dimensions, [n, k]")
    require_dtype(NAME, "weight", weight, (x.dtype,))
    require_like(NAME, "weight", weight, "x", x, (weight.shape[0], x.shape[-1]))
    if bias is not None:
        require_dtype(NAME, "bias", bias, (x.dtype,))
        require_like(NAME, "bias", bias, "weight", weight, (weight.shape[0],))


def _choices() -> str:
    *first, last = (repr(name) for name in reference.ACTIVATIONS[1:])
    return f"None, {', '.join(first)} or {last}"


def _decider(library: Library) -> Callable[..., bool]:
    """fits(device, m, n, k, alignment, dtype's number): whether the library's kernels are made for such a call."""

    @lru_cache(maxsize=1024)
    def fits(device: int, *numbers: int) -> bool:
        yes = ctypes.c_int32()
        library.call("kw_linear_fits", device, *numbers, ctypes.addressof(yes))
        return bool(yes.value)

    return fits


def _alignment(x: Tensor, weight: Tensor) -> int | None:
    """Of addresses and rows of elements of 16 bits, in bytes: 16 or 1. None where rows have no one stride."""
    strides = row_stride(x), row_stride(weight)
    if strides[0] is None or strides[1] is None:
        return None
    together = x.data_ptr() | weight.data_ptr() | strides[0] * 2 | strides[1] * 2
    return 1 if together % _ALIGNMENT else _ALIGNMENT


def launcher(library: Library, key: str) -> Callable[..., Tensor | None]:
    """launch(x, weight, bias, activation); None where there is something to refuse, or torch is to compute it."""
    (call, pack, refuse), place, fits = caller(library, _FUNCTION), placement(library, key), _decider(library)
    numbers, codes = dtype_codes(library, _DTYPES), {name: i for i, name in enumerate(reference.ACTIVATIONS)}
    here = library.constants["KW_CPU"]
    at: Callable[[Tensor], int] | None = None

    def launch(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor | None:
        nonlocal at
        at = at or handles(library)
        number, code = numbers.get(x.dtype), codes.get(activation)
        if not code or number is None or weight.dim() != 2 or not x.dim():
            return None
        (device, stream), (n, k) = place(x), weight.shape
        if device < 0 or device == here < 0 or x.shape[-1] != k or 0 in x.shape or n == 0:
            return None
        alignment = _alignment(x, weight)
        if alignment is None or not fits(device, x.numel() // k, n, k, alignment, number):
            return None
        y = x.new_empty((*x.shape[:-1], n))
        status = call(pack(stream, at(y), at(x), at(weight), 0 if bias is None else at(bias), code))
        if status:
            refuse(status)
            return None
        return y

    return launch


def bind(library: Library, key: str) -> Callable[..., Tensor]:
    import torch

    launch = launcher(library, key)

    def run(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Any:
        found = launch(x, weight, bias, activation)
        if found is not None:
            return found
        check(x, weight, bias, activation)
        refuse_freed(NAME, x=x, weight=weight, bias=bias)
        if x.dtype == torch.float64 or (x.dtype == torch.float16 and activation != "none" and not x.is_cuda):
            return reference.linear(x, weight, bias, activation)  # sums past float16 would make NaN of far activations
        return reference.by_torch(x, weight, bias, activation)

    return run
