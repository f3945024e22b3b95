# SPDX-License-Identifier: MIT
"""From tensors to a call of kw_swiglu_tensors or kw_swiglu_backward_tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops import _swiglu_checks as checks
from kernelwright.ops import _swiglu_reference as reference
from kernelwright.ops._handles import caller, handles, refused
from kernelwright.ops._tensors import placement, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

_FORWARD, _BACKWARD = "kw_swiglu_tensors", "kw_swiglu_backward_tensors"


def empty_like(tensor: Tensor) -> Tensor:
    import torch

    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def empty(shape: tuple[Any, ...], like: Tensor) -> Tensor:
    return like.new_empty(shape)


def _launcher(library: Library, key: str, function: str) -> Callable[..., bool]:
    """launch(*tensors): `function` where the first is; False where the library refuses them. None is left out."""
    (call, pack, refuse), place = caller(library, function), placement(library, key)
    at: Callable[[Tensor], int] | None = None

    def launch(*tensors: Tensor | None) -> bool:
        nonlocal at
        at = at or handles(library)
        given = [0 if tensor is None else at(tensor) for tensor in tensors]
        _, stream = place(tensors[0])
        status = call(pack(stream, *given))
        if status:
            refuse(status)
        return not status

    return launch


def _evenly(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(rows(tensor)[0] for tensor in tensors)


def bind(library: Library, key: str) -> Callable[..., Tensor]:
    import torch

    launch, contiguous = _launcher(library, key, _FORWARD), torch.contiguous_format

    def run(gate: Tensor, up: Tensor) -> Tensor:
        y = torch.empty_like(gate, memory_format=contiguous)
        if up is not None and launch(y, gate, up):  # without up the library would take gate for both
            return y
        checks.check(gate, up)
        if gate.dtype is checks.double():
            return reference.forward(gate, up)
        return y if launch(y, *_evenly(gate, up)) else refused(library, _FORWARD)

    return run


def bind_packed(library: Library, key: str) -> Callable[..., Tensor]:
    launch = _launcher(library, key, _FORWARD)

    def run(x: Tensor) -> Tensor:
        shape = x.shape
        if shape:
            y = x.new_empty(*shape[:-1], shape[-1] // 2)
            if launch(y, x, None):
                return y
        checks.check_packed(x)
        if x.dtype is checks.double():
            return reference.packed(x)
        return y if launch(y, *_evenly(x), None) else refused(library, _FORWARD)

    return run


def bind_backward(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    launch = _launcher(library, key, _BACKWARD)

    def run(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        dgate, dup = empty_like(gate), empty_like(gate)
        if launch(dgate, dup, grad, gate, up):
            return dgate, dup
        checks.check_backward(grad, gate, up)
        if gate.dtype is checks.double():
            return reference.backward(grad, gate, up)
        return (dgate, dup) if launch(dgate, dup, *_evenly(grad, gate, up)) else refused(library, _BACKWARD)

    return run


def bind_packed_backward(library: Library, key: str) -> Callable[..., Tensor]:
    launch = _launcher(library, key, _BACKWARD)

    def run(grad: Tensor, x: Tensor) -> Tensor:
        dx = empty_like(x)
        if launch(dx, None, grad, x, None):
            return dx
        checks.check_packed_backward(grad, x)
        if x.dtype is checks.double():
            return reference.packed_backward(grad, x)
        return dx if launch(dx, None, *_evenly(grad, x), None) else refused(library, _BACKWARD)

    return run
