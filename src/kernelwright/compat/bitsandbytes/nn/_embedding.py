# SPDX-License-Identifier: MIT
"""Embeddings whose optimizer states have 32 bits: rare words get large steps, which 8 bits take badly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.optim.manager import GlobalOptimManager

if TYPE_CHECKING:
    from torch import Tensor


class Embedding(torch.nn.Embedding):
    """torch.nn.Embedding whose weight is initialized by Xavier's rule, and has optimizer states of 32 bits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        GlobalOptimManager.get_instance().register_module_override(self, "weight", {"optim_bits": 32})

    def reset_parameters(self) -> None:
        torch.nn.init.xavier_uniform_(self.weight)
        self._fill_padding_idx_with_zero()


class StableEmbedding(Embedding):
    """With a layer norm after it, computed in torch's default type."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
            device=device, dtype=dtype,
        )  # fmt: skip
        self.norm = torch.nn.LayerNorm(embedding_dim, device=device)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        found = super().forward(input).to(torch.get_default_dtype())
        y: Tensor = self.norm(found)
        return y.to(self.weight.dtype)
