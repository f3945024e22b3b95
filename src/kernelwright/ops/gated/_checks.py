# SPDX-License-Identifier: MIT
"""What swiglu refuses, in one wording for kernels, fake tensors and the disabled path."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._tensors import require_dtype, require_like

if TYPE_CHECKING:
    from torch import Tensor


@cache
def _dtypes() -> tuple[Any, ...]:
    import torch

    return torch.float32, torch.float16, torch.bfloat16, torch.float64


def double() -> Any:
    """The element type that is computed in plain torch."""
    return _dtypes()[-1]


def _check_first(name: str, tensor: Tensor) -> None:
    if not tensor.shape:
        raise InvalidArgument(f"swiglu: {name} has shape (), but must have at least one dimension")
    require_dtype("swiglu", name, tensor, _dtypes())


def _check_like(name: str, tensor: Tensor, like: str, other: Tensor, shape: tuple[Any, ...]) -> None:
    require_dtype("swiglu", name, tensor, (other.dtype,))
    require_like("swiglu", name, tensor, like, other, shape)


def check(gate: Tensor, up: Tensor) -> None:
    _check_first("gate", gate)
    _check_like("up", up, "gate", gate, gate.shape)


def check_packed(x: Tensor) -> tuple[Any, ...]:
    """The shape of the result."""
    _check_first("x", x)
    shape = x.shape
    if shape[-1] % 2:
        raise InvalidArgument(
            f"swiglu: x has shape {tuple(shape)}, but [gate | up] in one tensor needs an even last dimension; "
            "give gate and up as two tensors if they are"
        )
    return (*shape[:-1], shape[-1] // 2)


def check_backward(grad: Tensor, gate: Tensor, up: Tensor) -> None:
    check(gate, up)
    _check_like("grad", grad, "gate", gate, gate.shape)


def check_packed_backward(grad: Tensor, x: Tensor) -> None:
    _check_like("grad", grad, "x", x, check_packed(x))
