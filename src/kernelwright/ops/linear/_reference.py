# SPDX-License-Identifier: MIT
"""linear and the derivatives of its activations in plain torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernelwright.ops._tensors import settled, without_autocast

if TYPE_CHECKING:
    from torch import Tensor

ACTIVATIONS = ("none", "relu", "squared_relu", "silu", "gelu", "gelu_tanh")
"""In the order of the C library's numbers."""


def activated(z: Tensor, activation: str | None) -> Tensor:
    """None, as the public function takes it, is "none"."""
    from torch.nn import functional

    if activation is None or activation == "none":
        return z
    if activation == "squared_relu":
        return functional.relu(z).square()
    if activation.startswith("gelu"):
        return functional.gelu(z, approximate="tanh" if activation == "gelu_tanh" else "none")
    result: Tensor = getattr(functional, activation)(z)
    return result


def matrix(tensor: Tensor) -> Tensor:
    """All dimensions but the last as one. -1 would be ambiguous where there are no elements, and flatten() has no rule
    for batches of gradients."""
    return tensor.reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1])


def _activate(y: Tensor, activation: str) -> None:
    """In place."""
    from torch.nn import functional

    if activation in ("relu", "squared_relu"):
        y.relu_()
    if activation == "squared_relu":
        y.square_()
    if activation == "silu":
        functional.silu(y, inplace=True)
    if activation.startswith("gelu"):
        functional.gelu(y, approximate="tanh" if activation == "gelu_tanh" else "none", out=y)


def by_torch(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """In the type of x: torch's product, then the activation of what that has rounded."""
    import torch

    if x.device.type == "cpu":
        x = x.contiguous()  # between rows may be NaN, and torch's product by a matrix unit multiplies that by 0
    y = x.new_empty((*x.shape[:-1], weight.shape[0]))
    with without_autocast(x.device):
        if bias is None:
            torch.mm(matrix(x), weight.t(), out=matrix(y))
        else:
            torch.addmm(bias, matrix(x), weight.t(), out=matrix(y))
    _activate(y, activation)
    return y


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None) -> Tensor:
    """Rounded once, at the end."""
    import torch

    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    with without_autocast(x.device):
        z = torch.matmul(x.to(wide), weight.to(wide).t())
    return settled(activated(z if bias is None else z + bias.to(wide), activation), x.dtype)


def terms(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None) -> tuple[Tensor]:
    """What the sums are made of, times how steep the activation is there, at most."""
    sizes, z = x.abs() @ weight.abs().t(), x @ weight.t()
    if bias is not None:
        sizes, z = sizes + bias.abs(), z + bias
    return (sizes * (2 * z.relu() + 0.02 * sizes) if activation == "squared_relu" else 1.2 * sizes,)


def gated_by_torch(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """Torch's product, then our kernel for SwiGLU, or torch's activation and product."""
    import torch

    from kernelwright.ops._calls import calls

    both = by_torch(x, weight, bias, "none")
    if activation == "silu":
        result: Tensor = calls.swiglu.packed(both)
        return result
    gate, up = both.chunk(2, -1)
    y = x.new_empty(gate.shape)
    return torch.mul(gate if activation == "none" else activated(gate, activation), up, out=y)


def gated(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None) -> Tensor:
    """Rounded once, at the end."""
    import torch

    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    with without_autocast(x.device):
        z = torch.matmul(x.to(wide), weight.to(wide).t())
    gate, up = (z if bias is None else z + bias.to(wide)).chunk(2, -1)
    return settled(activated(gate, activation) * up, x.dtype)


def gated_terms(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None) -> tuple[Tensor]:
    """As terms(), of a product of two sums."""
    sizes, z = x.abs() @ weight.abs().t(), x @ weight.t()
    if bias is not None:
        sizes, z = sizes + bias.abs(), z + bias
    (of_gate, of_up), (gate, up) = sizes.chunk(2, -1), z.chunk(2, -1)
    steep = of_gate * (2 * gate.relu() + 0.02 * of_gate) if activation == "squared_relu" else 1.2 * of_gate
    return (steep * up.abs() + activated(gate, activation).abs() * of_up + 0.02 * steep * of_up,)


def slope(z: Tensor, activation: str) -> Tensor:
    """The derivative of the activation, in float32 or float64."""
    if activation == "relu":
        return (z > 0).to(z.dtype)
    if activation == "squared_relu":
        return 2 * z.relu()
    if activation == "silu":
        s = z.sigmoid()
        return s * (1 + z * (1 - s))
    if activation == "gelu":
        return 0.5 * (1 + (z * 0.5**0.5).erf()) + z * (-0.5 * z * z).exp() * (2 * math.pi) ** -0.5
    factor = (2 / math.pi) ** 0.5
    t = (factor * (z + 0.044715 * z**3)).tanh()
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * factor * (1 + 3 * 0.044715 * z * z)
