# SPDX-License-Identifier: MIT
"""A base class for layers that treat outlier dimensions in a way of their own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.compat.bitsandbytes.utils import OutlierTracer

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)


class OutlierAwareLinear(torch.nn.Linear):
    """A subclass says what is done with the outlier dimensions that an OutlierTracer found."""

    def __init__(self, input_features: int, output_features: int, bias: bool = True, device: Any = None) -> None:
        super().__init__(input_features, output_features, bias, device)
        self.outlier_dim: Tensor | None = None
        self.is_quantized = False

    def forward_with_outliers(self, x: Tensor, outlier_idx: Any) -> Any:
        raise NotImplementedError("OutlierAwareLinear: a subclass must have forward_with_outliers(x, outlier_idx)")

    def quantize_weight(self, w: Tensor, outlier_idx: Any) -> Tensor:
        raise NotImplementedError("OutlierAwareLinear: a subclass must have quantize_weight(w, outlier_idx)")

    def forward(self, x: Tensor) -> Any:
        if self.outlier_dim is None:
            tracer = OutlierTracer.get_instance()
            if not tracer.is_initialized():
                logger.warning("OutlierAwareLinear: call OutlierTracer.get_instance().initialize(model) first")
            self.outlier_dim = tracer.get_outliers(self.weight)
        if not self.is_quantized:
            self.weight.data.copy_(self.quantize_weight(self.weight, self.outlier_dim))
            self.is_quantized = True
        return self.forward_with_outliers(x, self.outlier_dim)
