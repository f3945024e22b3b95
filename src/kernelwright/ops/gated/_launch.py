# SPDX-License-Identifier: MIT
"""From tensors to a call of kw_swiglu_tensors or kw_swiglu_backward_tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.ops._handles import caller, handles, refused
from kernelwright.ops._tensors import placement, refuse_freed, rows
from kernelwright.ops.gated import _checks as checks
from kernelwright.ops.gated import _reference as reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

    Launch = Callable[..., Any]

_FORWARD, _BACKWARD = "kw_swiglu_tensors", "kw_swiglu_backward_tensors"


def _bound(library: Library, key: str, function: str) -> Callable[..., bool]:
    """call(*tensors) is `function`, where the first is; False where the library refuses them. None is left out."""
    (call, pack, refuse), place = caller(library, function), placement(library, key)
    at: Callable[[Tensor], int] | None = None

    def run(*tensors: Tensor | None) -> bool:
        nonlocal at
        at = at or handles(library)
        given = [0 if tensor is None else at(tensor) for tensor in tensors]
        _, stream = place(tensors[0])
        status = call(pack(stream, *given))
        if status:
            refuse(status)
        return not status

    return run


def _evenly(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(rows(tensor)[0] for tensor in tensors)


# --- the results, or None where something is to be refused, copied or left to torch ---


def launcher(library: Library, key: str) -> Launch:
    import torch

    call, contiguous = _bound(library, key, _FORWARD), torch.contiguous_format

    def launch(gate: Tensor, up: Tensor) -> Tensor | None:
        y = torch.empty_like(gate, memory_format=contiguous)
        return y if up is not None and call(y, gate, up) else None  # without up the library would take gate for both

    return launch


def packed_launcher(library: Library, key: str) -> Launch:
    call = _bound(library, key, _FORWARD)

    def launch(x: Tensor) -> Tensor | None:
        shape = x.shape
        if not shape:
            return None
        y = x.new_empty(*shape[:-1], shape[-1] // 2)
        return y if call(y, x, None) else None

    return launch


def backward_launcher(library: Library, key: str) -> Launch:
    import torch

    call, contiguous = _bound(library, key, _BACKWARD), torch.contiguous_format

    def launch(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor] | None:
        dgate = torch.empty_like(gate, memory_format=contiguous)
        dup = torch.empty_like(gate, memory_format=contiguous)
        return (dgate, dup) if call(dgate, dup, grad, gate, up) else None

    return launch


def packed_backward_launcher(library: Library, key: str) -> Launch:
    import torch

    call, contiguous = _bound(library, key, _BACKWARD), torch.contiguous_format

    def launch(grad: Tensor, x: Tensor) -> Tensor | None:
        dx = torch.empty_like(x, memory_format=contiguous)
        return dx if call(dx, None, grad, x, None) else None

    return launch


# --- the implementations --------------------------------------------------------------


def _implementation(
    launcher: Callable[[Library, str], Launch],
    function: str,
    check: Callable[..., Any],
    by_torch: Callable[..., Any],
    names: tuple[str, ...],
) -> Callable[[Library, str], Launch]:
    """`bind` of an overload with arguments of these names, the last of which has the element type that it computes."""

    def bind(library: Library, key: str) -> Launch:
        launch = launcher(library, key)

        def run(*tensors: Tensor) -> Any:
            found = launch(*tensors)
            if found is not None:
                return found
            check(*tensors)
            refuse_freed("swiglu", **dict(zip(names, tensors, strict=True)))
            if tensors[-1].dtype is checks.double():
                return by_torch(*tensors)
            found = launch(*_evenly(*tensors))
            return found if found is not None else refused(library, function)

        return run

    return bind


bind = _implementation(launcher, _FORWARD, checks.check, reference.forward, ("gate", "up"))
bind_packed = _implementation(packed_launcher, _FORWARD, checks.check_packed, reference.packed, ("x",))
bind_backward = _implementation(
    backward_launcher, _BACKWARD, checks.check_backward, reference.backward, ("grad", "gate", "up")
)
bind_packed_backward = _implementation(
    packed_backward_launcher, _BACKWARD, checks.check_packed_backward, reference.packed_backward, ("grad", "x")
)
