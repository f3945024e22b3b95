# SPDX-License-Identifier: MIT
"""swiglu, its derivatives and theirs in plain torch, computed in float32 or float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.ops._tensors import settled

if TYPE_CHECKING:
    from torch import Tensor


def _wide(tensor: Tensor) -> Tensor:
    import torch

    return tensor if tensor.dtype is torch.float64 else tensor.float()


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    gate, up = x.chunk(2, -1) if x.shape[-1] else (x, x)
    return gate, up


def _joined(gate: Tensor, up: Tensor) -> Tensor:
    import torch

    return torch.cat((gate, up), -1)


def _slope(gate: Tensor) -> Tensor:
    """The derivative of silu."""
    s = gate.sigmoid()
    return s * (1 + gate * (1 - s))


def _curvature(gate: Tensor) -> Tensor:
    """The second derivative of silu."""
    s = gate.sigmoid()
    return s * (1 - s) * (2 + gate * (1 - 2 * s))


def forward(gate: Tensor, up: Tensor) -> Tensor:
    from torch.nn.functional import silu

    return settled(silu(_wide(gate)) * _wide(up), gate.dtype)


def packed(x: Tensor) -> Tensor:
    return forward(*_halves(x))


def backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    from torch.nn.functional import silu

    g, a, b = _wide(grad), _wide(gate), _wide(up)
    return settled(g * b * _slope(a), gate.dtype), settled(g * silu(a), gate.dtype)


def packed_backward(grad: Tensor, x: Tensor) -> Tensor:
    return _joined(*backward(grad, *_halves(x)))


# How large the terms are that the results are sums of (Overload.terms): the slope of silu passes through zero.


def terms_of_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    from torch.nn.functional import silu

    s = gate.sigmoid()
    return (grad * up).abs() * s * (1 + gate.abs() * (1 - s)), (grad * silu(gate)).abs()


def terms_of_packed_backward(grad: Tensor, x: Tensor) -> tuple[Tensor]:
    return (_joined(*terms_of_backward(grad, *_halves(x))),)


def second(to_gate: Tensor, to_up: Tensor, grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of what `backward` gives, the derivatives by its three arguments; to_gate and to_up are those of its results."""
    from torch.nn.functional import silu

    u, v, g, a, b = map(_wide, (to_gate, to_up, grad, gate, up))
    slope = _slope(a)
    by_grad = u * b * slope + v * silu(a)
    by_gate = u * g * b * _curvature(a) + v * g * slope
    by_up = u * g * slope
    return by_grad.to(grad.dtype), by_gate.to(gate.dtype), by_up.to(up.dtype)


def second_packed(to_x: Tensor, grad: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    by_grad, by_gate, by_up = second(*_halves(to_x), grad, *_halves(x))
    return by_grad, _joined(by_gate, by_up)
