# SPDX-License-Identifier: MIT
"""From checked tensors to a call of kw_swiglu or kw_swiglu_backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops import _swiglu_checks as checks
from kernelwright.ops import _swiglu_reference as reference
from kernelwright.ops._swiglu_checks import alike
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


def _launcher(library: Library, key: str, function: str) -> tuple[Callable[..., None], Callable[..., int | None]]:
    """launch(x, code, cols, count, *parts): `function` on `count` elements in rows of `cols`, of the type of that
    number, where `x` is; and what gives the number of an element type, None for those that torch computes."""
    pack, address = library.packer(function)
    call, place = library.functions["kw_call"], placement(library, key)

    def launch(x: Tensor, code: int, cols: int, count: int, *parts: int) -> None:
        device, stream = place(x)
        status = call(pack(address, device, stream, *parts, count // cols, cols, code))
        if status:
            library.fail(function, status)

    return launch, dtype_codes(library, ("float32", "float16", "bfloat16")).get


def bind(library: Library, key: str) -> Callable[..., Tensor]:
    import torch

    launch, code_of = _launcher(library, key, "kw_swiglu")
    contiguous = torch.contiguous_format

    def run(gate: Tensor, up: Tensor) -> Tensor:
        code, shape = code_of(gate.dtype), gate.shape
        if code is None or not shape or not alike(gate, up):
            checks.check(gate, up)
            return reference.forward(gate, up)
        y = torch.empty_like(gate, memory_format=contiguous)
        count = y.numel()
        if count:
            cols = shape[-1]
            gate_stride = up_stride = cols
            if not (gate.is_contiguous() and up.is_contiguous()):
                (gate, gate_stride), (up, up_stride) = rows(gate), rows(up)
            launch(y, code, cols, count, y.data_ptr(), cols, gate.data_ptr(), gate_stride, up.data_ptr(), up_stride)
        return y

    return run


def bind_packed(library: Library, key: str) -> Callable[..., Tensor]:
    launch, code_of = _launcher(library, key, "kw_swiglu")

    def run(x: Tensor) -> Tensor:
        code, shape = code_of(x.dtype), x.shape
        if code is None or not shape or shape[-1] % 2:
            checks.check_packed(x)
            return reference.packed(x)
        cols = shape[-1] // 2
        y = x.new_empty(*shape[:-1], cols)
        count = y.numel()
        if count:
            x, stride = rows(x)
            gate, up = _halves(x)
            launch(x, code, cols, count, y.data_ptr(), cols, gate, stride, up, stride)
        return y

    return run


def bind_backward(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    launch, code_of = _launcher(library, key, "kw_swiglu_backward")

    def run(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        code, shape = code_of(gate.dtype), gate.shape
        if code is None or not shape or not (alike(gate, up) and alike(gate, grad)):
            checks.check_backward(grad, gate, up)
            return reference.backward(grad, gate, up)
        dgate, dup = empty_like(gate), empty_like(gate)
        if dgate.numel():
            cols = shape[-1]
            (grad, grad_stride), (gate, gate_stride), (up, up_stride) = rows(grad), rows(gate), rows(up)
            # fmt: off
            launch(
                gate, code, cols, dgate.numel(), dgate.data_ptr(), cols, dup.data_ptr(), cols,
                grad.data_ptr(), grad_stride, gate.data_ptr(), gate_stride, up.data_ptr(), up_stride,
            )
            # fmt: on
        return dgate, dup

    return run


def bind_packed_backward(library: Library, key: str) -> Callable[..., Tensor]:
    launch, code_of = _launcher(library, key, "kw_swiglu_backward")

    def run(grad: Tensor, x: Tensor) -> Tensor:
        checks.check_packed_backward(grad, x)
        code = code_of(x.dtype)
        if code is None:
            return reference.packed_backward(grad, x)
        dx = empty_like(x)
        if dx.numel():
            grad, grad_stride = rows(grad)
            x, stride = rows(x)
            (dgate, dup), (gate, up), cols, count = _halves(dx), _halves(x), grad.shape[-1], grad.numel()
            wide = dx.shape[-1]
            launch(x, code, cols, count, dgate, wide, dup, wide, grad.data_ptr(), grad_stride, gate, stride, up, stride)
        return dx

    return run
