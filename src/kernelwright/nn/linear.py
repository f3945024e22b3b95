# SPDX-License-Identifier: MIT
"""A linear layer that ends in its activation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.ops.linear._reference import ACTIVATIONS
from kernelwright.ops.linear.linear import linear

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Linear"]


class Linear(torch.nn.Linear):
    """`torch.nn.Linear` with `activation`: "relu", "squared_relu", "silu", "gelu", "gelu_tanh", or None.

    Parameters, their names and their initial values are torch's.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        activation: str | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        if activation not in (None, *ACTIVATIONS[1:]):
            raise InvalidArgument(
                f"Linear: activation is {activation!r}, but must be None or one of {', '.join(ACTIVATIONS[1:])}"
            )
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        if self.activation is None:
            return super().forward(x)
        return linear(x, self.weight, self.bias, self.activation)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation}"
