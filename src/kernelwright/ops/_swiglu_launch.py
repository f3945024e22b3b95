# SPDX-License-Identifier: MIT
"""From checked tensors to a call of kw_swiglu or kw_swiglu_backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops import _swiglu_checks as checks
from kernelwright.ops import _swiglu_reference as reference
from kernelwright.ops._tensors import dtype_codes, placement, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library


def empty_like(tensor: Tensor) -> Tensor:
    import torch

    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def empty(shape: tuple[Any, ...], like: Tensor) -> Tensor:
    return like.new_empty(shape)


def _halves(x: Tensor) -> tuple[int, int]:
    """Addresses of gate and up in a packed tensor."""
    start = x.data_ptr()
    return start, start + x.shape[-1] // 2 * x.element_size()


def _launcher(library: Library, key: str, function: str) -> Callable[..., None]:
    """launch(like, *parts): `function` on rows as `like` has them, which is contiguous and not empty."""
    call = library.functions[function]
    codes = dtype_codes(library, ("float32", "float16", "bfloat16"))
    place = placement(library, key)

    def launch(like: Tensor, *parts: int) -> None:
        device, stream = place(like)
        cols = like.shape[-1]
        status = call(device, stream, *parts, like.numel() // cols, cols, codes[like.dtype])
        if status:
            library.fail(function, status)

    return launch


def bind(library: Library, key: str) -> Callable[..., Tensor]:
    launch, double = _launcher(library, key, "kw_swiglu"), checks.double()

    def run(gate: Tensor, up: Tensor) -> Tensor:
        checks.check(gate, up)
        if gate.dtype is double:
            return reference.forward(gate, up)
        y = empty_like(gate)
        if y.numel():
            (gate, gate_stride), (up, up_stride) = rows(gate), rows(up)
            launch(y, y.data_ptr(), y.shape[-1], gate.data_ptr(), gate_stride, up.data_ptr(), up_stride)
        return y

    return run


def bind_packed(library: Library, key: str) -> Callable[..., Tensor]:
    launch, double = _launcher(library, key, "kw_swiglu"), checks.double()

    def run(x: Tensor) -> Tensor:
        shape = checks.check_packed(x)
        if x.dtype is double:
            return reference.packed(x)
        y = empty(shape, x)
        if y.numel():
            x, stride = rows(x)
            gate, up = _halves(x)
            launch(y, y.data_ptr(), y.shape[-1], gate, stride, up, stride)
        return y

    return run


def bind_backward(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    launch, double = _launcher(library, key, "kw_swiglu_backward"), checks.double()

    def run(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        checks.check_backward(grad, gate, up)
        if gate.dtype is double:
            return reference.backward(grad, gate, up)
        dgate, dup = empty_like(gate), empty_like(gate)
        if dgate.numel():
            cols = gate.shape[-1]
            (grad, grad_stride), (gate, gate_stride), (up, up_stride) = rows(grad), rows(gate), rows(up)
            # fmt: off
            launch(
                dgate, dgate.data_ptr(), cols, dup.data_ptr(), cols,
                grad.data_ptr(), grad_stride, gate.data_ptr(), gate_stride, up.data_ptr(), up_stride,
            )
            # fmt: on
        return dgate, dup

    return run


def bind_packed_backward(library: Library, key: str) -> Callable[..., Tensor]:
    launch, double = _launcher(library, key, "kw_swiglu_backward"), checks.double()

    def run(grad: Tensor, x: Tensor) -> Tensor:
        checks.check_packed_backward(grad, x)
        if x.dtype is double:
            return reference.packed_backward(grad, x)
        dx = empty_like(x)
        if dx.numel():
            grad, grad_stride = rows(grad)
            x, stride = rows(x)
            (dgate, dup), (gate, up), width = _halves(dx), _halves(x), dx.shape[-1]
            launch(grad, dgate, width, dup, width, grad.data_ptr(), grad_stride, gate, stride, up, stride)
        return dx

    return run
