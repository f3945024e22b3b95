# SPDX-License-Identifier: MIT
"""Layers in 8 bits as bitsandbytes has them, where kernelwright.nn's take more: which checkpoints they load."""

from __future__ import annotations

from typing import Any

import torch

from kernelwright.compat.bitsandbytes.utils import INVERSE_LINEAR_8BIT_WEIGHTS_FORMAT_MAPPING
from kernelwright.nn import linear_8bit


class _Either(type):
    """What kernelwright's quantizers made is an instance, too: other libraries ask by isinstance."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, linear_8bit.Linear8bitLt)


class Linear8bitLt(linear_8bit.Linear8bitLt, metaclass=_Either):
    """kernelwright.nn.Linear8bitLt with two ways of bitsandbytes': it loads a quantized checkpoint only after it was
    moved to its device, and its bias takes the type of its input for good."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.bias is not None and self.bias.dtype is not x.dtype:
            self.bias.data = self.bias.data.to(x.dtype)
        return super().forward(x)

    def _take(self, weight: Any, scales: Any, assign: bool) -> bool:
        if scales is not None and self._scales() is None:
            raise RuntimeError(
                "Loading a quantized checkpoint into non-quantized Linear8bitLt is not supported, as in bitsandbytes: "
                "call layer.to(device) first, or take kernelwright.nn.Linear8bitLt"
            )
        return super()._take(weight, scales, assign)


def maybe_rearrange_weight(
    state_dict: Any,
    prefix: str,
    local_metadata: Any,
    strict: Any,
    missing_keys: Any,
    unexpected_keys: Any,
    error_msgs: Any,
) -> None:
    """Takes a checkpoint's note of the codes' order out of it; only rows are known."""
    del local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    if state_dict.get(f"{prefix}weight") is None:
        return
    order = state_dict.pop(f"{prefix}weight_format", "row")
    order = order.item() if isinstance(order, torch.Tensor) else order
    named = INVERSE_LINEAR_8BIT_WEIGHTS_FORMAT_MAPPING.get(order, order)
    if named != "row":
        raise ValueError(f"{prefix}weight: its codes are in the order {named!r}, but only 'row' is supported")
