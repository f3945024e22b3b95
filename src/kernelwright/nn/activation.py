# SPDX-License-Identifier: MIT
"""Activation layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernelwright.ops.gated.swiglu import swiglu

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SwiGLU"]


class SwiGLU(torch.nn.Module):
    """silu(gate) * up, without parameters.

    `forward` takes gate and up as two tensors, or as one that holds both side by side in its last dimension, as one
    linear layer for both gives them.
    """

    def forward(self, gate: Tensor, up: Tensor | None = None) -> Tensor:
        return swiglu(gate, up)
