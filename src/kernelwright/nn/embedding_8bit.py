# SPDX-License-Identifier: MIT
"""Embeddings whose table is held in 8 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn._layer_8bit import Layer8bit
from kernelwright.nn.params_8bit import Int8Params

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Embedding8bit"]


class Embedding8bit(Layer8bit, torch.nn.Embedding):
    """torch.nn.Embedding with a table in 8 bits and a scale a row, frozen: bitsandbytes' arguments and behaviour.

    It is quantized when it is first moved to a device, the CPU too. Unlike bitsandbytes' it can be saved and loaded,
    with the keys of Linear8bitLt.

    num_embeddings, embedding_dim, device    as torch.nn.Embedding has them
    dtype     of the table and of what `forward` gives, until `.half()` or `.to(dtype)` change the latter

    >>> table = Embedding8bit(1000, 128).to("cpu")
    >>> table(torch.tensor([[1, 2], [3, 999]])).shape
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, device: Any = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, device=device, dtype=dtype)
        self.dtype = self.weight.dtype
        self.weight = Int8Params(self.weight.data, requires_grad=False)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """What `.half()` and `.to(dtype)` make of tensors is what `forward` gives from then on; the codes stay."""
        self.dtype = fn(torch.empty(0, dtype=self.dtype, device=self.weight.device)).dtype
        return super()._apply(fn, recurse)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        scales = self._scales()
        if scales is None:
            raise InvalidArgument(
                f"{type(self).__name__}: its table of shape {tuple(self.weight.shape)} is not quantized yet: move the "
                "layer to the device where it is to run, layer.to(device); on the CPU layer.to('cpu')"
            )
        codes = torch.nn.functional.embedding(input, self.weight.data)
        of_rows = torch.nn.functional.embedding(input, scales.view(-1, 1))
        return (codes * (of_rows / 127.0)).to(self.dtype)
