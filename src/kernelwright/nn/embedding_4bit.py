# SPDX-License-Identifier: MIT
"""Embeddings whose table is held in 4 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _four_bit
from kernelwright.nn._layer_4bit import Layer4bit
from kernelwright.nn.params_4bit import Params4bit
from kernelwright.nn.quant_state import QuantState

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Embedding4bit", "EmbeddingFP4", "EmbeddingNF4"]


class Embedding4bit(Layer4bit, torch.nn.Embedding):
    """torch.nn.Embedding with a 4-bit table, frozen: bitsandbytes' arguments and behaviour.

    It is quantized when it is first moved to a device, the CPU too. Only the rows that are looked up are dequantized
    where embedding_dim is a multiple of the block size (64), else the whole table. Unlike bitsandbytes' it can be
    saved and loaded, with the keys of Linear4bit.

    num_embeddings, embedding_dim, device    as torch.nn.Embedding has them
    dtype         of the table and of what `forward` gives, until `.half()` or `.to(dtype)` change the latter
    quant_type    "fp4" or "nf4"
    quant_storage the type that the packed bytes are seen as

    >>> table = Embedding4bit(1000, 128, quant_type="nf4").to("cpu")
    >>> table(torch.tensor([[1, 2], [3, 999]])).shape
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        dtype: torch.dtype | None = None,
        quant_type: str = "fp4",
        quant_storage: torch.dtype = torch.uint8,
        device: Any = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, device=device, dtype=dtype)
        self.dtype = self.weight.dtype
        self.quant_storage = quant_storage
        self.quant_state = None
        self.weight = Params4bit(
            self.weight.data, compress_statistics=False, quant_type=quant_type, quant_storage=quant_storage, module=self
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self._describe()}"

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """What `.half()` and `.to(dtype)` make of tensors is what `forward` gives from then on; the codes stay."""
        self.dtype = fn(torch.empty(0, dtype=self.dtype, device=self.weight.device)).dtype
        return super()._apply(fn, recurse)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        state = self._state()
        _four_bit.check_input(self, input)
        if input.device != self.weight.device:
            raise InvalidArgument(
                f"{type(self).__name__}: its input is on {input.device}, but its weight is on {self.weight.device}; "
                "move one of them (.to())"
            )
        dim = self.embedding_dim
        if dim % state.blocksize:
            table = _four_bit.dequantize(self.weight, state)
            return torch.nn.functional.embedding(input, table).to(self.dtype)
        places = input.reshape(-1)
        codes = _four_bit.as_bytes(self.weight).view(self.num_embeddings, dim // 2)
        scales = _four_bit.scales(state).view(self.num_embeddings, dim // state.blocksize)
        rows = QuantState(
            torch.nn.functional.embedding(places, scales).view(-1),
            (*input.shape, dim),
            state.code,
            state.blocksize,
            state.quant_type,
            self.dtype,
        )
        return _four_bit.dequantize(torch.nn.functional.embedding(places, codes), rows)

    def _unpacked_shape(self) -> tuple[int, int]:
        return self.num_embeddings, self.embedding_dim


class EmbeddingFP4(Embedding4bit):
    """Embedding4bit with the FP4 values."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        dtype: torch.dtype | None = None,
        quant_storage: torch.dtype = torch.uint8,
        device: Any = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, dtype, "fp4", quant_storage, device)


class EmbeddingNF4(Embedding4bit):
    """Embedding4bit with the NF4 values."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        dtype: torch.dtype | None = None,
        quant_storage: torch.dtype = torch.uint8,
        device: Any = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, dtype, "nf4", quant_storage, device)
