# SPDX-License-Identifier: MIT
"""The order of codes in checkpoints of 8-bit layers."""

from __future__ import annotations

from typing import Any

import torch

from kernelwright.compat.bitsandbytes.utils import INVERSE_LINEAR_8BIT_WEIGHTS_FORMAT_MAPPING


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
