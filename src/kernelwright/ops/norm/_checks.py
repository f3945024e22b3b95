# SPDX-License-Identifier: MIT
"""What the normalisations refuse, in one wording for kernels, fake tensors and the disabled path."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument, InvalidDtype
from kernelwright.ops._tensors import refuse_inference, refuse_overlap, require_dtype, require_like

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MAX_COLS", "check", "check_backward", "double", "refuse_inference", "refuse_overlap"]

MAX_COLS = 65536
MAX_EPS = 3e38


@cache
def _dtypes() -> tuple[Any, ...]:
    import torch

    return torch.float32, torch.float16, torch.bfloat16, torch.float64


def double() -> Any:
    """The element type that is computed in plain torch."""
    return _dtypes()[-1]


def _check_rows(op: str, name: str, x: Tensor, eps: float) -> None:
    shape = x.shape
    if not shape or not 1 <= shape[-1] <= MAX_COLS:
        raise InvalidArgument(
            f"{op}: {name} has shape {tuple(shape)}, "
            f"but its last dimension must exist and have 1 to {MAX_COLS} elements"
        )
    require_dtype(op, name, x, _dtypes())
    if not 0.0 <= eps <= MAX_EPS:
        raise InvalidArgument(f"{op}: eps is {eps}, but must be a finite float32 that is not negative")


def _check_parameters(op: str, names: tuple[str, ...], like: str, x: Tensor, parameters: tuple[Any, ...]) -> None:
    first = None
    for name, parameter in zip(names, parameters, strict=True):
        if parameter is None:
            continue
        require_dtype(op, name, parameter, (x.dtype, _dtypes()[0]))
        require_like(op, name, parameter, like, x, x.shape[-1:])
        if first is None:
            first = parameter
        elif parameter.dtype != first.dtype:
            raise InvalidDtype(
                f"{op}: {name} has dtype {parameter.dtype}, but {names[0]} has {first.dtype}; they must have the same"
            )


def check(
    op: str, names: tuple[str, ...], x: Tensor, residual: Tensor | None, parameters: tuple[Any, ...], eps: float
) -> None:
    _check_rows(op, "x", x, eps)
    _check_parameters(op, names, "x", x, parameters)
    if residual is not None:
        require_dtype(op, "residual", residual, (x.dtype,))
        require_like(op, "residual", residual, "x", x, x.shape)


def check_backward(
    op: str,
    names: tuple[str, ...],
    grad: Tensor,
    h: Tensor,
    parameters: tuple[Any, ...],
    grad_sum: Tensor | None,
    eps: float,
    wanted: tuple[bool, ...],
) -> None:
    op = f"{op}.backward"
    _check_rows(op, "h", h, eps)
    _check_parameters(op, names, "h", h, parameters)
    for name, tensor in (("grad", grad), ("grad_sum", grad_sum)):
        if tensor is not None:
            require_dtype(op, name, tensor, (h.dtype,))
            require_like(op, name, tensor, "h", h, h.shape)
    for name, parameter, want in zip(names, parameters, wanted, strict=True):
        if want and parameter is None:
            raise InvalidArgument(f"{op}: {name}_grad is True, but {name} is None; give it, or ask for no gradient")
