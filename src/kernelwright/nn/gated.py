# SPDX-License-Identifier: MIT
"""A feed-forward layer with a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.ops.linear._reference import ACTIVATIONS
from kernelwright.ops.linear.gated_linear import gated_linear

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["GatedMLP"]


class GatedMLP(torch.nn.Module):
    """`down_proj(activation(gate) * up)`, where one layer, `gate_up_proj`, has the rows of the gate and then of `up`.

    in_features      of x and of the result, [..., in_features]
    hidden_features  of gate and up, each
    activation       that of the gate: "silu", "gelu", "gelu_tanh", "relu", "squared_relu", or None
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        bias: bool = False,
        activation: str | None = "silu",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if activation not in (None, *ACTIVATIONS[1:]):
            raise InvalidArgument(
                f"GatedMLP: activation is {activation!r}, but must be None or one of {', '.join(ACTIVATIONS[1:])}"
            )
        self.activation = activation
        self.gate_up_proj = torch.nn.Linear(in_features, 2 * hidden_features, bias, device=device, dtype=dtype)
        self.down_proj = torch.nn.Linear(hidden_features, in_features, bias, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        both = self.gate_up_proj
        result: Tensor = self.down_proj(gated_linear(x, both.weight, both.bias, self.activation))
        return result

    def extra_repr(self) -> str:
        return f"activation={self.activation}"
