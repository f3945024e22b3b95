# SPDX-License-Identifier: MIT
"""What bitsandbytes.autograd has for LLM.int8, on kernelwright.nn's product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from kernelwright.nn import matmul_8bit as product

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.nn.matmul_8bit import MatmulLtState


class GlobalOutlierPooler:
    """Outlier columns of all layers of one width; one for the process."""

    _instance: ClassVar[GlobalOutlierPooler | None] = None
    outliers: set[int]
    model_dim: int | None

    def __init__(self) -> None:
        raise RuntimeError("GlobalOutlierPooler: there is one for the process, from get_instance()")

    def initialize(self) -> None:
        self.outliers, self.model_dim = set(), None

    @classmethod
    def get_instance(cls) -> GlobalOutlierPooler:
        if cls._instance is None:
            cls._instance = cls.__new__(cls)
            cls._instance.initialize()
        return cls._instance

    def add_outliers(self, outlier_idx: Tensor, feature_dim: int) -> None:
        self.model_dim = self.model_dim or feature_dim
        if feature_dim == self.model_dim:  # the second layer of a feed-forward part has another width
            self.outliers.update(outlier_idx.tolist())

    def get_current_outlier_idx(self) -> Tensor:
        return torch.tensor(sorted(self.outliers), dtype=torch.int64)


class MatMul8bitLt:
    """`apply` multiplies in 8 bits: A quantized by rows, its outlier columns multiplied in its own type."""

    @staticmethod
    def apply(A: Tensor, B: Tensor, out: Any = None, bias: Any = None, state: MatmulLtState | None = None) -> Tensor:
        found: Tensor = product.MatMul8bit.apply(A, B, bias, state or product.MatmulLtState())
        return found if out is None else out.copy_(found)


class MatMul8bitFp:
    """`apply` multiplies by the weight as its codes say, in A's type: what training on a CPU takes."""

    @staticmethod
    def apply(A: Tensor, B: Tensor, out: Any = None, bias: Any = None, state: MatmulLtState | None = None) -> Tensor:
        found: Tensor = product.MatMul8bitDense.apply(A, B, bias, state or product.MatmulLtState())
        return found if out is None else out.copy_(found)
