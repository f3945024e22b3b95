# SPDX-License-Identifier: MIT
"""From tensors to a call of kw_<norm> or kw_<norm>_backward, where nothing must be refused, copied or left to torch.

That is looked at here, in passing; what is unusual gives None, and `_norm` finds the words or makes it usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._norm_checks import MAX_COLS, MAX_EPS
from kernelwright.ops._scratch import scratch, scratch_bytes
from kernelwright.ops._tensors import dtype_codes, placement, row_stride

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

    Parameters = tuple[Tensor | None, ...]

_DTYPES = ("float32", "float16", "bfloat16")


def _reader(codes: dict[Any, int], key: str) -> Callable[..., tuple[Any, ...] | None]:
    """read(x, parameters, eps): columns, from row to row, the numbers of both element types, where parameters lie."""
    import torch

    single, code_of = torch.float32, codes.get
    here = key == "CPU"  # a call comes to the CPU's kernel where all tensors are there, to a GPU's where some are

    def read(x: Tensor, parameters: Parameters, eps: float) -> tuple[Any, ...] | None:
        dtype, shape, addresses = x.dtype, x.shape, []
        code = kind = code_of(dtype)
        if code is None or not shape or not 0.0 <= eps <= MAX_EPS:
            return None
        cols, held = shape[-1], None
        stride = cols if x.is_contiguous() else row_stride(x)
        if stride is None or not 1 <= cols <= MAX_COLS:
            return None
        for parameter in parameters:
            if parameter is None:
                addresses.append(0)
                continue
            given = parameter.dtype
            if given is not held:
                if held is not None or (given is not dtype and given is not single):
                    return None
                held, kind = given, codes[given]
            address = parameter.data_ptr()
            if (
                parameter.shape != (cols,)
                or not parameter.is_contiguous()
                or not (here or parameter.get_device() == x.get_device())
                or (not address and x.numel())
            ):
                return None
            addresses.append(address)
        return cols, stride, code, kind, addresses

    return read


def _stride_beside(x: Tensor, other: Tensor) -> int | None:
    """From row to row of a tensor that must be like x; None where it is not, lies otherwise, or has no memory."""
    same = other.dtype is x.dtype and other.shape == x.shape and other.get_device() == x.get_device()
    if not same or (not other.data_ptr() and x.numel()):
        return None
    return x.shape[-1] if other.is_contiguous() else row_stride(other)


def _apart(x: Tensor, stride: int, addresses: list[int], wide: int, total: Tensor, total_stride: int) -> bool:
    """Whether rows and parameters, each of `wide` bytes, share no memory with what is written, from first to last."""
    size, cols = x.element_size(), x.shape[-1]
    rows = x.numel() // cols - 1
    first, x_first = total.data_ptr(), x.data_ptr()
    end = first + (rows * total_stride + cols) * size
    if x_first < end and first < x_first + (rows * stride + cols) * size:
        return False
    return not any(address < end and first < address + wide for address in addresses if address)


def launcher(norm: str, library: Library, key: str, overload: str, *, centered: bool) -> Callable[..., Any]:
    """launch(x, residual, parameters, eps): what the overload returns, or None."""
    import torch

    name = f"kw_{norm}"
    (pack, function), call = library.packer(name), library.functions["kw_call"]
    codes, place = dtype_codes(library, _DTYPES), placement(library, key)
    read, contiguous = _reader(codes, key), torch.contiguous_format
    statistics = [0] * (1 + centered)  # backward computes them again: cheaper than writing and reading them
    adds, inplace = overload != "default", overload == "residual_"

    def launch(x: Tensor, residual: Tensor, parameters: Parameters, eps: float) -> Any:
        found = read(x, parameters, eps)
        if found is None:
            return None
        cols, stride, code, kind, addresses = found
        count, added, added_stride, sum_, sum_stride = x.numel(), 0, 0, 0, 0
        if adds:
            beside = _stride_beside(x, residual)
            if beside is None:
                return None
            added, added_stride = residual.data_ptr(), beside
            if inplace:
                wide = cols * (x.element_size() if kind == code else 4)
                if added_stride < cols or not _apart(x, stride, addresses, wide, residual, added_stride):
                    return None
                sum_, sum_stride = added, added_stride
            else:
                total = torch.empty_like(x, memory_format=contiguous)
                sum_, sum_stride = total.data_ptr(), cols
        y = torch.empty_like(x, memory_format=contiguous)
        if count:
            device, stream = place(x)
            addresses += statistics
            # fmt: off
            status = call(pack(
                function, device, stream, y.data_ptr(), cols, sum_, sum_stride, x.data_ptr(), stride, added,
                added_stride, *addresses, count // cols, cols, code, kind, eps,
            ))
            # fmt: on
            if status:
                library.fail(name, status)
        return (y, total) if adds and not inplace else y

    return launch


def backward_launcher(norm: str, library: Library, key: str, *, centered: bool) -> Callable[..., Any]:
    """launch(grad, h, parameters, grad_sum, eps, wanted): the derivatives of h and of each parameter, or None."""
    import torch

    name = f"kw_{norm}_backward"
    (pack, function), call = library.packer(name), library.functions["kw_call"]
    codes, place = dtype_codes(library, _DTYPES), placement(library, key)
    needed = scratch_bytes(library, f"{name}_workspace")
    read, contiguous = _reader(codes, key), torch.contiguous_format
    statistics = [0] * (1 + centered)

    def launch(
        grad: Tensor, h: Tensor, parameters: Parameters, grad_sum: Tensor | None, eps: float, wanted: tuple[bool, ...]
    ) -> Any:
        found = read(h, parameters, eps)
        stride = _stride_beside(h, grad) if found else None
        added_stride = 0 if grad_sum is None else _stride_beside(h, grad_sum)
        if found is None or stride is None or added_stride is None:
            return None
        cols, h_stride, code, kind, (weight, *_) = found
        added, count = 0 if grad_sum is None else grad_sum.data_ptr(), h.numel()
        to_h, tensors, found_at = torch.empty_like(h, memory_format=contiguous), [], []
        for parameter, want in zip(parameters, wanted, strict=True):
            if want and parameter is None:
                return None
            made = (h if parameter is None else parameter).new_empty(cols if want else 0)
            tensors.append(made)
            found_at.append(made.data_ptr() if want else 0)
        if not count:
            return to_h, *(tensor.zero_() for tensor in tensors)
        device, stream = place(h)
        size = needed(device, count // cols, cols) if True in wanted else 0
        _scratch, scratch_at = scratch(h, device, size)
        # fmt: off
        status = call(pack(
            function, device, stream, to_h.data_ptr(), cols, *found_at, grad.data_ptr(), stride, added, added_stride,
            h.data_ptr(), h_stride, weight, *statistics, scratch_at, size, count // cols, cols, code, kind, eps,
        ))
        # fmt: on
        if status:
            library.fail(name, status)
        return to_h, *tensors

    return launch
