# SPDX-License-Identifier: MIT
"""From tensors to a call of kw_linear_tensors or kw_gated_linear_tensors, or to torch's own product where that is the
faster way."""

from __future__ import annotations

import ctypes
from functools import lru_cache, partial
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

LINEAR, GATED = "linear", "gated_linear"
_DTYPES = ("float32", "float16", "bfloat16")
_ALIGNMENT = 16  # what the kernels for tensor cores want of addresses and rows


def check(name: str, x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> None:
    import torch

    if not x.shape:
        raise InvalidArgument(f"{name}: x has shape (), but must have at least one dimension")
    require_dtype(name, "x", x, (*(getattr(torch, name) for name in _DTYPES), torch.float64))
    if activation not in reference.ACTIVATIONS:
        raise InvalidArgument(f"{name}: activation is {activation!r}, but must be {_choices()}")
    if weight.dim() != 2:
        raise InvalidArgument(f"{name}: weight has shape {tuple(weight.shape)}, but must have two dimensions, [n, k]")
    if name == GATED and weight.shape[0] % 2:
        raise InvalidArgument(
            f"{name}: weight has {weight.shape[0]} rows, but must have an even number: those of the gate, then as many"
        )
    require_dtype(name, "weight", weight, (x.dtype,))
    require_like(name, "weight", weight, "x", x, (weight.shape[0], x.shape[-1]))
    if bias is not None:
        require_dtype(name, "bias", bias, (x.dtype,))
        require_like(name, "bias", bias, "weight", weight, (weight.shape[0],))


def _choices() -> str:
    *first, last = (repr(name) for name in reference.ACTIVATIONS[1:])
    return f"None, {', '.join(first)} or {last}"


def _decider(library: Library, name: str = LINEAR) -> Callable[..., bool]:
    """fits(device, m, n, k, alignment, dtype's number): whether the library's kernels are made for such a call."""

    @lru_cache(maxsize=1024)
    def fits(device: int, *numbers: int) -> bool:
        yes = ctypes.c_int32()
        library.call(f"kw_{name}_fits", device, *numbers, ctypes.addressof(yes))
        return bool(yes.value)

    return fits


def _alignment(x: Tensor, weight: Tensor) -> int | None:
    """Of addresses and rows of elements of 16 bits, in bytes: 16 or 1. None where rows have no one stride."""
    strides = row_stride(x), row_stride(weight)
    if strides[0] is None or strides[1] is None:
        return None
    together = x.data_ptr() | weight.data_ptr() | strides[0] * 2 | strides[1] * 2
    return 1 if together % _ALIGNMENT else _ALIGNMENT


def _launcher(library: Library, key: str, name: str) -> Callable[..., Tensor | None]:
    """launch(x, weight, bias, activation); None where there is something to refuse, or torch is to compute it."""
    call, pack, refuse = caller(library, f"kw_{name}_tensors")
    place, fits, parts = placement(library, key), _decider(library, name), 2 if name == GATED else 1
    numbers, codes = dtype_codes(library, _DTYPES), {name: i for i, name in enumerate(reference.ACTIVATIONS)}
    here = library.constants["KW_CPU"]
    at: Callable[[Tensor], int] | None = None

    def launch(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor | None:
        nonlocal at
        at = at or handles(library)
        number, code = numbers.get(x.dtype), codes.get(activation)
        if code is None or (parts == 1 and not code) or number is None or weight.dim() != 2 or not x.dim():
            return None
        (device, stream), (n, k) = place(x), weight.shape
        if device < 0 or device == here < 0 or x.shape[-1] != k or 0 in x.shape or n == 0 or n % parts:
            return None
        alignment, n = _alignment(x, weight), n // parts
        if alignment is None or not fits(device, x.numel() // k, n, k, alignment, number):
            return None
        y = x.new_empty((*x.shape[:-1], n))
        status = call(pack(stream, at(y), at(x), at(weight), 0 if bias is None else at(bias), code))
        if status:
            refuse(status)
            return None
        return y

    return launch


def _bind(library: Library, key: str, name: str) -> Callable[..., Tensor]:
    import torch

    launch = _launcher(library, key, name)
    exact, by_torch = (
        (reference.gated, reference.gated_by_torch) if name == GATED else (reference.linear, reference.by_torch)
    )

    def run(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Any:
        found = launch(x, weight, bias, activation)
        if found is not None:
            return found
        check(name, x, weight, bias, activation)
        refuse_freed(name, x=x, weight=weight, bias=bias)
        if x.dtype == torch.float64 or (x.dtype == torch.float16 and activation != "none" and not x.is_cuda):
            return exact(x, weight, bias, activation)  # sums past float16 would make NaN of far activations
        return by_torch(x, weight, bias, activation)

    return run


bind, gated_bind = partial(_bind, name=LINEAR), partial(_bind, name=GATED)
