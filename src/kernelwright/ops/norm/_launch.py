# SPDX-License-Identifier: MIT
"""From tensors to a call of kw_<norm>_tensors or kw_<norm>_backward_tensors, where nothing must be refused, copied or
left to torch.

The library looks at that in passing; what is unusual gives None, and `_norm` finds the words or makes it usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._handles import caller, handles
from kernelwright.ops._scratch import scratch, scratch_bytes
from kernelwright.ops._tensors import placement
from kernelwright.ops.norm._checks import MAX_COLS

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

    Parameters = tuple[Tensor | None, ...]


def forward_name(norm: str) -> str:
    return f"kw_{norm}_tensors"


def backward_name(norm: str) -> str:
    return f"kw_{norm}_backward_tensors"


def launcher(norm: str, library: Library, key: str, overload: str) -> Callable[..., Any]:
    """launch(x, residual, parameters, eps): what the overload returns, or None."""
    import torch

    (call, pack, refuse), place = caller(library, forward_name(norm)), placement(library, key)
    contiguous = torch.contiguous_format
    adds, inplace = overload != "default", overload == "residual_"
    at: Callable[[Tensor], int] | None = None

    def launch(x: Tensor, residual: Tensor, parameters: Parameters, eps: float) -> Any:
        nonlocal at
        at = at or handles(library)
        y = torch.empty_like(x, memory_format=contiguous)
        given = [0 if parameter is None else at(parameter) for parameter in parameters]
        _, stream = place(x)
        if adds:
            total = residual if inplace else torch.empty_like(x, memory_format=contiguous)
            status = call(pack(stream, at(y), at(total), at(x), at(residual), *given, eps))
        else:
            status = call(pack(stream, at(y), 0, at(x), 0, *given, eps))
        if status:
            return refuse(status)
        return (y, total) if adds and not inplace else y

    return launch


def inplace_launcher(norm: str, library: Library, key: str, overload: str) -> Callable[..., Any]:
    """The same for the overload that writes to `residual`."""
    import torch

    launch = launcher(norm, library, key, overload)
    written, inference = torch.autograd.graph.increment_version, torch.is_inference_mode_enabled

    def launch_inplace(x: Tensor, residual: Tensor, parameters: Parameters, eps: float) -> Any:
        found = launch(x, residual, parameters, eps) if not residual.is_inference() or inference() else None
        if found is not None:
            written(residual)  # a backward pass that saved it must notice, as after any operator of torch's
        return found

    return launch_inplace


def backward_launcher(norm: str, library: Library, key: str, overload: str) -> Callable[..., Any]:  # noqa: ARG001 - as above
    """launch(grad, h, parameters, grad_sum, eps, wanted): the derivatives of h and of each parameter, or None."""
    import torch

    (call, pack, refuse), place = caller(library, backward_name(norm)), placement(library, key)
    needed = scratch_bytes(library, f"kw_{norm}_backward_workspace")
    contiguous = torch.contiguous_format
    at: Callable[[Tensor], int] | None = None

    def launch(
        grad: Tensor, h: Tensor, parameters: Parameters, grad_sum: Tensor | None, eps: float, wanted: tuple[bool, ...]
    ) -> Any:
        nonlocal at
        at = at or handles(library)
        cols = h.shape[-1] if h.dim() else 0
        if not 1 <= cols <= MAX_COLS:
            return None
        to_h, rows = torch.empty_like(h, memory_format=contiguous), h.numel() // cols
        tensors, results, given = [], [], []
        for parameter, want in zip(parameters, wanted, strict=True):
            if want and parameter is None:
                return None
            made = (h if parameter is None else parameter).new_empty(cols if want else 0)
            tensors.append(made)
            results.append(at(made) if want and rows else 0)
            given.append(0 if parameter is None else at(parameter))
        device, stream = place(h)
        size = needed(device, rows, cols) if rows and True in wanted else 0
        _memory, scratch_at = scratch(h, device, size)
        added = 0 if grad_sum is None else at(grad_sum)
        status = call(pack(stream, at(to_h), *results, at(grad), added, at(h), *given, scratch_at, size, eps))
        if status:
            return refuse(status)
        return (to_h, *tensors) if rows else (to_h, *(tensor.zero_() for tensor in tensors))

    return launch
